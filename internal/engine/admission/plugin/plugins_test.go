package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func names(c admission.Chain) (out []string) {
	for _, p := range c {
		out = append(out, p.Name)
	}
	return out
}

func TestChain(t *testing.T) {
	deps := Deps{
		Objects: admissiontest.NewObjects(), Clock: clock.RealClock{},
		Others: map[string]admission.Plugin{"ValidatingAdmissionWebhook": {Name: "ValidatingAdmissionWebhook"}},
	}
	byDefault := []string{
		"NamespaceLifecycle", "LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity", "Priority",
		"DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection", "PodGroupProtection", "PersistentVolumeClaimResize",
		"RuntimeClass", "CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass",
		"PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator", "ValidatingAdmissionWebhook", "ResourceQuota",
	}
	got, err := Chain(deps, nil, nil)
	if err != nil || !slices.Equal(names(got), byDefault) {
		t.Errorf("by default: %v, %v", names(got), err)
	}
	got, err = Chain(deps, []string{"AlwaysDeny", "NamespaceAutoProvision"}, []string{"ResourceQuota", "ServiceAccount", "AlwaysAdmit"})
	if err != nil {
		t.Fatal(err)
	}
	chosen := names(got)
	if chosen[0] != "NamespaceAutoProvision" || chosen[len(chosen)-1] != "AlwaysDeny" ||
		slices.Contains(chosen, "ResourceQuota") || slices.Contains(chosen, "ServiceAccount") {
		t.Errorf("chosen: %v", chosen)
	}
	if _, err = Chain(deps, []string{"EventRateLimit"}, nil); err == nil {
		t.Error("EventRateLimit needs a configuration, and none was missed")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://images"}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	deps.Config = map[string][]byte{
		"EventRateLimit":     []byte("limits: [{type: Server, qps: 1, burst: 1}]"),
		"ImagePolicyWebhook": []byte("imagePolicy: {kubeConfigFile: " + kubeconfig + "}"),
	}
	got, err = Chain(deps, Names(), nil)
	if len(Names()) != 39 || err != nil || len(got) != 36 {
		t.Errorf("%d names, of which are made %d: %v, %v", len(Names()), len(got), names(got), err)
	}
}

func TestChainErrors(t *testing.T) {
	for _, c := range []struct {
		name            string
		enable, disable []string
		want            string
	}{
		{"unknown to enable", []string{"X"}, nil, `--enable-admission-plugins: plugin "X" is unknown`},
		{"unknown to disable", nil, []string{"X"}, `--disable-admission-plugins: plugin "X" is unknown`},
		{"both", []string{"Priority"}, []string{"Priority"}, `both name "Priority"`},
	} {
		if _, err := Chain(Deps{}, c.enable, c.disable); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Chain(Deps{Config: map[string][]byte{"PodSecurity": []byte("kind: Nothing")}}, nil, nil); err == nil {
		t.Error("a wrong configuration was taken")
	}
}

func TestReadConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("quota.yaml", "kind: ResourceQuotaConfiguration")
	got, err := ReadConfig(write("all.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- {name: ResourceQuota, path: quota.yaml}
- {name: PodSecurity, configuration: {kind: PodSecurityConfiguration}}
- {name: Priority}
`))
	if err != nil || len(got) != 2 || string(got["ResourceQuota"]) != "kind: ResourceQuotaConfiguration" ||
		string(got["PodSecurity"]) != `{"kind":"PodSecurityConfiguration"}` {
		t.Errorf("got %q, %v", got, err)
	}
	for _, version := range []string{"apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"} { // all that kube-apiserver has
		if _, err := ReadConfig(write("version.yaml", "kind: AdmissionConfiguration\napiVersion: "+version)); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"kind: Other", "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1alpha1", "kind: AdmissionConfiguration\napiVersion: apiserver.k8s.io/v1",
		"kind: AdmissionConfiguration\napiVersion: v1", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugin: []"} {
		if _, err := ReadConfig(write("bad.yaml", text)); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
}
