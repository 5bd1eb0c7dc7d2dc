package test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// TestLargeObjects stores an object of 5 MiB, which two limits forbid unless flags say otherwise.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	large := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "snapshot.test/v1", "kind": "Gizmo", "metadata": map[string]any{"name": "large"},
		"spec": map[string]any{"text": strings.Repeat("0123456789abcdef", 5<<16)}}}
	dir := filepath.Join(t.TempDir(), "data")
	k := serve(t, dir, "--engine=pebble", "--max-request-body-bytes=6291456", "--pebble-max-value-bytes=6291456")
	populate(t, k)
	d, err := dynamic.NewForConfig(k.config())
	must(t, err)
	_, err = d.Resource(gizmos).Namespace("shop").Create(t.Context(), large, metav1.CreateOptions{})
	must(t, err)
	got, err := d.Resource(gizmos).Namespace("shop").Get(t.Context(), "large", metav1.GetOptions{})
	must(t, err)
	if text, _, _ := unstructured.NestedString(got.Object, "spec", "text"); len(text) != 5<<20 {
		t.Errorf("it has %d bytes", len(text))
	}
	for n := 2; n <= 3; n++ { // it has several revisions, and a history
		_, err = d.Resource(gizmos).Namespace("shop").Patch(t.Context(), "large", "application/merge-patch+json", []byte(`{"spec":{"size":`+strings.Repeat("1", n)+`}}`), metav1.PatchOptions{})
		must(t, err)
	}
	if said, _ := kanzenSays(t, 0, "space", "--data-dir="+dir); !strings.Contains(said, "gizmos.snapshot.test shop/large") {
		t.Errorf("the largest is not told: %s", said)
	}

	k.end(syscall.SIGTERM)
	serve(t, dir, "--pebble-max-value-bytes=6291456") // the directory keeps its engine

	small := serve(t, filepath.Join(t.TempDir(), "data"), "--engine=pebble")
	populate(t, small)
	d, err = dynamic.NewForConfig(small.config())
	must(t, err)
	if _, err = d.Resource(gizmos).Namespace("shop").Create(t.Context(), large, metav1.CreateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("without the flags: %v", err)
	}
	for args, want := range map[string]string{
		"--pebble-max-value-bytes=6291456 --engine=etcd":           "etcd stores no larger values",
		"--pebble-max-value-bytes=6291456":                         "has a database of etcd, or will have",
		"--pebble-max-value-bytes=1000 --engine=pebble":            "must be from",
		"--max-request-body-bytes=1000":                            "max-request-body-bytes",
		"--max-request-body-bytes=1000000000000 --engine=pebble":   "max-request-body-bytes",
		"--pebble-max-value-bytes=1000000000000 --engine=pebble":   "must be from",
		"--pebble-max-value-bytes=6291456 --etcd-servers=http://x": "pebble-max-value-bytes",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if _, stderr := kanzenSays(t, 1, append([]string{"serve", "--secure-port=0", "--data-dir=" + dir}, strings.Fields(args)...)...); !strings.Contains(stderr, want) {
			t.Errorf("%s: %s", args, stderr)
		}
	}
}
