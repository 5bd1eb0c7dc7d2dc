package test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestSampleAPIServer puts Kubernetes' sample-apiserver, with an etcd of its own, behind kanzen. It authenticates and
// authorizes the users of kanzen by asking kanzen.
func TestSampleAPIServer(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	registerWardle(t, k)
	kubectl := func(args ...string) string {
		t.Helper()
		stdout, stderr, _ := output(t, binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig()}, args...)...)
		return stdout + stderr
	}
	want := func(got string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%q is not in:\n%s", p, got)
			}
		}
	}
	flunders := dynamic.NewForConfigOrDie(k.config()).Resource(schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}).Namespace("default")
	ctx := t.Context()
	watched, err := flunders.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watched.Stop()
	_, err = flunders.Create(ctx, flunder("one"), metav1.CreateOptions{})
	must(t, err)
	expectEvent(t, watched, watch.Added, "one")

	want(kubectl("get", "flunders"), "one")
	want(kubectl("explain", "flunder.spec"), "FIELDS", "reference")
	want(kubectl("api-resources", "--api-group=wardle.example.com"), "flunders", "fischers")
	// What its own admission refuses: flunders that a fischer bans.
	want(kubectl("apply", "-f", writeManifest(t, "apiVersion: wardle.example.com/v1alpha1\nkind: Fischer\nmetadata: {name: f}\ndisallowedFlunders: [bad]\n")), "created")
	within(t, time.Minute, "a flunder is refused", func(ctx context.Context) bool {
		_, err := flunders.Create(ctx, flunder("bad"), metav1.CreateOptions{})
		if err == nil {
			must(t, flunders.Delete(ctx, "bad", metav1.DeleteOptions{})) // the ban has not come in yet
		}
		return err != nil && strings.Contains(err.Error(), "this name may not be used, please change the resource name")
	})
	// What its schema refuses, by the merged OpenAPI documents.
	want(kubectl("apply", "-f", writeManifest(t, "apiVersion: wardle.example.com/v1alpha1\nkind: Flunder\nmetadata: {name: odd}\nspec: {unknown: 1}\n")), `unknown field "spec.unknown"`)
	// Who may do nothing here may do nothing there.
	want(kubectl("get", "flunders", "--as=nobody"), `flunders.wardle.example.com is forbidden: User "nobody" cannot list resource "flunders"`)
	want(kubectl("delete", "flunder", "one"), `flunder.wardle.example.com "one" deleted`)

	// A namespace goes away with the flunders in it.
	want(kubectl("create", "namespace", "short"), "created")
	_, err = dynamic.NewForConfigOrDie(k.config()).Resource(schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}).Namespace("short").Create(ctx, flunder("two"), metav1.CreateOptions{})
	must(t, err)
	want(kubectl("delete", "namespace", "short", "--timeout=20s"), "deleted")
	want(kubectl("get", "flunders", "--all-namespaces"), "No resources found")
}

// registerWardle starts sample-apiserver and registers it.
func registerWardle(t *testing.T, k *kanzen) {
	t.Helper()
	program := buildOthers(t, "SAMPLE_APISERVER", "sampleapiserver")
	client := etcdServer(t)
	pair := pkitest.Server(t, "api.wardle.svc", "localhost")
	cert, key := pair.Write(t, t.TempDir())
	port := freePort(t)
	start(t, program, "--etcd-servers", client, "--bind-address=127.0.0.1", "--secure-port", port, "--tls-cert-file", cert, "--tls-private-key-file", key,
		"--kubeconfig", k.kubeconfig(), "--authentication-kubeconfig", k.kubeconfig(), "--authorization-kubeconfig", k.kubeconfig())
	c := k.client()
	registerLocal(t, c, "wardle", "api", port, pair.PEM(), "wardle.example.com/v1alpha1")
	within(t, time.Minute, "its documents are merged", func(ctx context.Context) bool {
		_, err := c.RESTClient().Get().AbsPath("/openapi/v3/apis/wardle.example.com/v1alpha1").DoRaw(ctx)
		return err == nil && strings.Contains(aggregatedGroup(t, c.RESTClient(), "wardle.example.com"), "flunders")
	})
}

func flunder(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": map[string]any{"name": name}}}
}

// expectEvent waits for the next event of a watch.
func expectEvent(t *testing.T, w watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		if o, ok := e.Object.(*unstructured.Unstructured); !ok || e.Type != kind || o.GetName() != name {
			t.Errorf("%s %v, want %s %s", e.Type, e.Object, kind, name)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("no event %s %s", kind, name)
	}
}

// writeManifest writes a manifest into a file.
func writeManifest(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
