package manifest_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/admissionregistration"
	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
)

const policies = "ValidatingAdmissionPolicy"

// policy is a manifest of a policy and of its binding.
func policy(name string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `, validationActions: [Deny]}
`
}

// watched is a directory that is followed, and the clock by which it is looked at.
type watched struct {
	*manifest.Directory
	t        *testing.T
	path     string
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
}

func load(t *testing.T, files map[string]string) (*watched, error) {
	t.Helper()
	w := &watched{t: t, path: t.TempDir(), clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), registry: prometheus.NewRegistry()}
	for name, text := range files {
		w.write(name, text)
	}
	var kinds []manifest.Kind
	for _, r := range admissionregistration.Resources(admissionregistration.Deps{}) {
		if strings.HasPrefix(r.Kind, policies) {
			kinds = append(kinds, manifest.Kind{Name: r.Kind, Default: r.Versions[0].Default, Validate: r.Rules.Validate})
		}
	}
	var err error
	w.Directory, err = manifest.Load(t.Context(), manifest.Config{Plugin: policies, Kinds: kinds, Path: w.path, Registry: w.registry, Server: "server",
		Clock: w.clock, Log: slog.New(slog.DiscardHandler)})
	return w, err
}

func (w *watched) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.path, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// follow runs the directory until the test ends.
func (w *watched) follow() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// looks lets the directory be looked at until a metric has a value.
func (w *watched) looks(status string, n float64) {
	w.t.Helper()
	for reloads(w, status) < n {
		w.clock.Step(time.Second)
		time.Sleep(time.Millisecond)
	}
}

func reloads(w *watched, status string) (n float64) {
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "apiserver_manifest_admission_config_controller_automatic_reloads_total" && l.GetValue() == status {
					n = m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// names are those of the objects of a kind.
func (w *watched) names(kind string) (names string) {
	w.t.Helper()
	objs, err := w.View(kind).Objects(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, obj := range objs {
		names += strings.TrimSuffix(obj.GetName(), manifest.Suffix) + " "
	}
	return strings.TrimSpace(names)
}

// Objects are read from YAML and JSON files, lists of their kind and Lists, in the order of their names. Other files are not looked at.
func TestLoad(t *testing.T) {
	w, err := load(t, map[string]string{
		"b.yaml": policy("b.static.k8s.io"), "c.YML": "---\n" + policy("a.static.k8s.io") + "---\n", "empty.yaml": "", "readme.txt": "kind: Nonsense",
		"list.json": `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",
			"metadata":{"name":"again.static.k8s.io"},"spec":{"policyName":"c.static.k8s.io","validationActions":["Warn"]}}]}`,
		"typed.yaml": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyList","items":[{"metadata":{"name":"c.static.k8s.io"},
			"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},"validations":[{"expression":"true"}]}}]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if p, b := w.names(policies), w.names(policies+"Binding"); p != "a b c" || b != "a again b" {
		t.Errorf("policies %s, bindings %s", p, b)
	}
	objs, _ := w.View(policies).Objects(t.Context())
	if f := objs[0].(*admissionv1.ValidatingAdmissionPolicy).Spec.FailurePolicy; f == nil || *f != admissionv1.Fail {
		t.Errorf("the failure policy is %v", f)
	}
	if w, err := load(t, nil); err != nil || w.names(policies) != "" {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	good := policy("a.static.k8s.io")
	for text, want := range map[string]string{
		policy("a"):           `"a" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io"`,
		good + "---\n" + good: `duplicate name "a.static.k8s.io" found in file "DIR/a.yaml" (previously seen in "DIR/a.yaml")`,
		strings.Replace(good, "policyName: a", "policyName: b", 1):                                  `binding "a.static.k8s.io" references policy "b.static.k8s.io" which does not exist in the manifest directory`,
		strings.Replace(good, "policyName: a.static.k8s.io", "policyName: a", 1):                    `binding "a.static.k8s.io": spec.policyName "a" must end with ".static.k8s.io"`,
		strings.Replace(good, "spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: Secret}\n", 1): `ValidatingAdmissionPolicy "a.static.k8s.io": spec.paramKind is not supported for static manifests`,
		strings.Replace(good, "/v1\n", "/v1beta1\n", 1):                                             "unsupported resource type *v1beta1.ValidatingAdmissionPolicy",
		strings.Replace(good, "spec:", "colour: red\nspec:", 1):                                     `strict decoding error: unknown field "colour"`,
	} {
		w, err := load(t, map[string]string{"a.yaml": text})
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "DIR", w.path)) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Changes are taken up together, and only if all is right.
func TestReload(t *testing.T) {
	w, err := load(t, map[string]string{"a.yaml": policy("a.static.k8s.io")})
	if err != nil {
		t.Fatal(err)
	}
	revision := func() int64 {
		n, err := w.View(policies).Changed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.follow()
	first := revision()
	w.write("b.yaml", policy("b.static.k8s.io"))
	w.looks("success", 2)
	if second := revision(); w.names(policies) != "a b" || second == first {
		t.Errorf("policies %s at revision %d after %d", w.names(policies), second, first)
	}
	w.write("a.yaml", "no manifest")
	w.looks("failure", 1)
	if w.names(policies) != "a b" {
		t.Errorf("with a wrong file: %s", w.names(policies))
	}
	if err := os.Remove(filepath.Join(w.path, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.looks("success", 3)
	if w.names(policies) != "b" {
		t.Errorf("policies %s", w.names(policies))
	}
	// The hash is that of kube-apiserver for the same files.
	const hash = "sha256:c7a1485d52b4f2d250a94515b72e57932bfaad43378bf7c8f537feb42c80de2a"
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(`# HELP apiserver_manifest_admission_config_controller_last_config_info Information about the last applied manifest_admission configuration with hash as label, split by apiserver identity.
# TYPE apiserver_manifest_admission_config_controller_last_config_info gauge
apiserver_manifest_admission_config_controller_last_config_info{apiserver_id_hash="sha256:b3eacd33433b31b5252351032c9b3e7a2e7aa7738d5decdf0dd6c62680853c06",hash="`+hash+`",plugin="ValidatingAdmissionPolicy"} 1
`), "apiserver_manifest_admission_config_controller_last_config_info"); err != nil {
		t.Error(err)
	}
}

func TestCheckPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		on   bool
		want string
	}{
		{"", false, ""}, {t.TempDir(), true, ""},
		{t.TempDir(), false, "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled"},
		{"here", true, `staticManifestsDir: Invalid value: "here": must be an absolute file path`}, {file, true, "must be a directory"}, {file + "/x", true, "unable to read: "},
	} {
		err := manifest.CheckPath(c.path, c.on)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.path, err, c.want)
		}
	}
}
