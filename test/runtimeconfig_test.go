package test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

const runtimeConfig = "api/all=true,apps/v1=false,batch/v1/cronjobs=false,autoscaling/v1=false,policy/v1=false"

// withoutAdditions leaves out what kube-apiserver does not have.
func withoutAdditions(flags ...string) kanzentest.Option {
	return kanzentest.Flags(append([]string{"--extensions="}, flags...)...)
}

// What --runtime-config chooses is served, and what it turns off is answered, as on kube-apiserver.
func TestRuntimeConfig(t *testing.T) {
	t.Parallel()
	theirs, ours := peer.Start(t, "--runtime-config="+runtimeConfig), kanzentest.Start(t, withoutAdditions("--runtime-config="+runtimeConfig)).Config()
	t.Run("discovery", func(t *testing.T) { sameDiscovery(t, listed(t, ours), listed(t, theirs)) })
	t.Run("off", func(t *testing.T) {
		sameAnswers(t, kubernetes.NewForConfigOrDie(ours).RESTClient(), kubernetes.NewForConfigOrDie(theirs).RESTClient())
	})
}

// What other versions of Kubernetes serve is served as kube-apiserver emulates them.
func TestEmulatedVersions(t *testing.T) {
	t.Parallel()
	theirAnswers := peer.NewRecorded[[]string](t, "emulated")
	for _, version := range []string{"1.34", "1.35", "1.36"} {
		flags := []string{"--emulated-version=" + version, "--runtime-config=api/all=true"}
		theirs := theirAnswers.Answer(version, func() []string { return listed(t, peer.Start(t, flags...)) })
		ours := kanzentest.Start(t, withoutAdditions(flags...)).Config()
		sameDiscovery(t, listed(t, ours), theirs)
		metrics, err := kubernetes.NewForConfigOrDie(ours).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil || !strings.Contains(string(metrics), "\nkanzen_background_panics_total 0\n") {
			t.Errorf("%s: controllers panic (%v)", version, err)
		}
	}
}

// noPanics asks whether background work has panicked, which the server survives.
func noPanics(t *testing.T, c *rest.Config) {
	t.Helper()
	metrics, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(metrics), "\nkanzen_background_panics_total 0\n") {
		t.Errorf("controllers panic (%v)", err)
	}
}

// What is newer than the emulated version is served if it is asked for so, and what it no longer has for one more release.
func TestForwardCompatible(t *testing.T) {
	t.Parallel()
	refusals, served := peer.NewRecorded[string](t, "forwardcompatible-refusals"), peer.NewRecorded[[]string](t, "forwardcompatible")
	const old, forward, asked = "--emulated-version=1.36", "--emulation-forward-compatible", "--runtime-config-emulation-forward-compatible"
	for _, flags := range [][]string{
		{old, forward}, {old, forward, "--runtime-config=api/beta=true"}, {"--emulated-version=1.34", forward, "--runtime-config=api/beta=true"},
		{old, forward, "--runtime-config=certificates.k8s.io/v1beta1=true"},
		{old, forward, "--runtime-config=api/beta=true,certificates.k8s.io/v1=false"}, {old, forward, "--runtime-config=resource.k8s.io/v1beta2/resourceclaims=true"},
		{old, asked, "--runtime-config=certificates.k8s.io/v1/clustertrustbundles=true,storagemigration.k8s.io/v1=true"},
		{old, asked, "--runtime-config=api/all=true"}, {old, asked, forward, "--runtime-config=api/all=true"},
		{old, "--runtime-config=storagemigration.k8s.io/v1=true"}, {old, "--runtime-config=certificates.k8s.io/v1/clustertrustbundles=true"},
		{"--emulated-version=1.34", "--runtime-config=resource.k8s.io/v1/devicetaintrules=true"},
	} {
		ours, err := kanzentest.New(t.Context(), withoutAdditions(flags...))
		if err != nil {
			why := refusals.Answer(strings.Join(flags, " "), func() string { return peer.Refusal(t, peer.Etcd(t), flags...) })
			if why == "" || !strings.Contains(why, strings.TrimPrefix(err.Error(), "kanzentest: the server did not become ready: ")) {
				t.Errorf("%v: kanzen says %v, kube-apiserver %q", flags, err, why)
			}
			continue
		}
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			theirs := served.Answer(strings.Join(flags, " "), func() []string { return listed(t, peer.Start(t, flags...)) })
			sameDiscovery(t, listed(t, ours.Config()), theirs)
			noPanics(t, ours.Config())
		})
		must(t, ours.Stop())
	}
}

// described are the OpenAPI documents of a server.
type described struct {
	V3 map[string]string `json:"v3"` // hashes of the documents, by path
	V2 string            `json:"v2"` // a hash of the paths and definitions
}

// openAPIOf asks a server for its OpenAPI documents.
func openAPIOf(t *testing.T, c *rest.Config) described {
	t.Helper()
	d := described{V3: map[string]string{}}
	for path, url := range openapiURLs(t, c) {
		body, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().RequestURI(url).DoRaw(t.Context())
		must(t, err)
		d.V3[path] = fmt.Sprintf("%x", sha256.Sum256(body))[:32]
	}
	text, err := json.Marshal(swagger(t, c))
	must(t, err)
	d.V2 = fmt.Sprintf("%x", sha256.Sum256(text))
	return d
}

// The OpenAPI documents describe what is served, and nothing else: those of v3 are the same, byte for byte.
func TestOpenAPIOfServed(t *testing.T) {
	t.Parallel()
	theirAnswers := peer.NewRecorded[described](t, "openapi")
	for _, flags := range [][]string{
		{"--emulated-version=1.36"},
		{"--emulated-version=1.35", "--runtime-config=api/beta=true"},
		{"--emulated-version=1.34", "--runtime-config=api/all=true"},
		{"--runtime-config=" + runtimeConfig},
		{"--runtime-config=api/all=true"},
	} {
		question := strings.Join(flags, " ")
		theirs := theirAnswers.Answer(question, func() described { return openAPIOf(t, peer.Start(t, flags...)) })
		ours := openAPIOf(t, kanzentest.Start(t, withoutAdditions(flags...)).Config())
		for path := range theirs.V3 {
			if ours.V3[path] != theirs.V3[path] {
				t.Errorf("%s: %s: got %q, want %q", question, path, ours.V3[path], theirs.V3[path])
			}
		}
		if len(ours.V3) != len(theirs.V3) || ours.V2 != theirs.V2 {
			t.Errorf("%s: %d documents of v3, want %d; v2 is %s, want %s", question, len(ours.V3), len(theirs.V3), ours.V2, theirs.V2)
		}
	}
}

// swagger returns the paths and definitions of the OpenAPI v2 document.
func swagger(t *testing.T, c *rest.Config) map[string]map[string]any {
	t.Helper()
	body, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Paths, Definitions map[string]any }
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	return map[string]map[string]any{"path": doc.Paths, "definition": doc.Definitions}
}

// openapiURLs returns the URLs of the OpenAPI documents, which have hashes of what is in them, by path.
func openapiURLs(t *testing.T, c *rest.Config) map[string]string {
	t.Helper()
	body, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/openapi/v3").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(body, &index); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, d := range index.Paths {
		out[path] = d.ServerRelativeURL
	}
	return out
}

// sameDiscovery compares what is listed.
func sameDiscovery(t *testing.T, ours, theirs []string) {
	t.Helper()
	for _, r := range ours {
		if !slices.Contains(theirs, r) {
			t.Errorf("%s is served", r)
		}
	}
	for _, r := range theirs {
		if !slices.Contains(ours, r) {
			t.Errorf("%s is not served", r)
		}
	}
}

// listed returns the resources of discovery, as group/version/resource, in order.
func listed(t *testing.T, c *rest.Config) []string {
	t.Helper()
	body, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var groups struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct{ Resource string }
			}
		}
	}
	if err := json.Unmarshal(body, &groups); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, g := range groups.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				out[g.Metadata.Name+"/"+v.Version+"/"+r.Resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

func sameAnswers(t *testing.T, ours, theirs rest.Interface) {
	for _, path := range []string{
		"/apis/apps", "/apis/apps/v1", "/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/default/deployments/x",
		"/apis/batch/v1/cronjobs", "/apis/batch/v1/jobs", "/apis/autoscaling/v1/horizontalpodautoscalers",
		"/apis/autoscaling/v2/horizontalpodautoscalers", "/apis/policy/v1/poddisruptionbudgets", "/openapi/v3/apis/apps/v1", "/openapi/v3/apis/batch/v1",
	} {
		answer := func(c rest.Interface) string {
			r := c.Get().AbsPath(path).Do(t.Context())
			var code int
			r.StatusCode(&code)
			if r.Error() != nil {
				return fmt.Sprint(code, r.Error())
			}
			return fmt.Sprint(code)
		}
		if got, want := answer(ours), answer(theirs); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
}

// A version that is switched on serves the same objects, and can be applied to.
func TestRuntimeConfigBeta(t *testing.T) {
	t.Parallel()
	c := kubernetes.NewForConfigOrDie(kanzentest.Start(t, kanzentest.Flags("--runtime-config="+runtimeConfig, "--emulated-version=1.36")).Config())
	ctx := t.Context()
	made, err := c.NetworkingV1beta1().IPAddresses().Create(ctx, &networkingv1beta1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.77"},
		Spec:       networkingv1beta1.IPAddressSpec{ParentRef: &networkingv1beta1.ParentReference{Resource: "services", Namespace: "default", Name: "x"}},
	}, metav1.CreateOptions{})
	if err != nil || made.Spec.ParentRef.Name != "x" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	list, err := c.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil || !slices.ContainsFunc(list.Items, func(a networkingv1.IPAddress) bool { return a.Name == made.Name && a.UID == made.UID }) {
		t.Errorf("list in v1: %v, %v", list, err)
	}
	for version, labels := range map[string]string{"v1beta1": "a", "v1": "b"} {
		patch := fmt.Sprintf(`{"apiVersion":"networking.k8s.io/%s","kind":"IPAddress","metadata":{"name":"10.0.0.77","labels":{%q:"1"}}}`, version, labels)
		body, err := c.RESTClient().Patch(types.ApplyPatchType).AbsPath("/apis/networking.k8s.io/"+version+"/ipaddresses/10.0.0.77").
			Param("fieldManager", version).Body([]byte(patch)).DoRaw(ctx)
		if err != nil {
			t.Errorf("apply in %s: %v", version, err)
		}
		if !strings.Contains(string(body), `"apiVersion":"networking.k8s.io/`+version+`"`) {
			t.Errorf("apply in %s: %s", version, body)
		}
	}
	got, err := c.NetworkingV1beta1().IPAddresses().Get(ctx, "10.0.0.77", metav1.GetOptions{})
	if err != nil || strings.Join(slices.Sorted(maps.Keys(got.Labels)), "") != "ab" || len(got.ManagedFields) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
