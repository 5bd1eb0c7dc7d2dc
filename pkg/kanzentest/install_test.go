package kanzentest_test

import (
	"context"
	"embed"
	"io/fs"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

//go:embed testdata/crds
var crds embed.FS

// TestInstall takes CRDs from each kind of source, and objects of the kind that they define.
func TestInstall(t *testing.T) {
	t.Parallel()
	text, err := crds.ReadFile("testdata/crds/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := fs.Sub(crds, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kanzentest.YAML(string(text)).Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]kanzentest.Source{
		"directory": kanzentest.Path("testdata/crds"), "file": kanzentest.Path("testdata/crds/widgets.yaml"),
		"fs": kanzentest.FS(crds, "testdata/crds"), "file of an fs": kanzentest.FS(sub, "crds/widgets.yaml"),
		"text": kanzentest.YAML(string(text)), "values": kanzentest.Objects(objects[0]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := widget(map[string]any{"size": int64(1)})
			w.SetNamespace("team")
			ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "team"}}
			// What needs the others comes first here.
			s := kanzentest.Start(t, kanzentest.Install(kanzentest.Objects(w, ns), source))
			d := dynamic.NewForConfigOrDie(s.Config())
			got, err := d.Resource(widgets).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.GetKind() != "Widget" {
				t.Errorf("%v, %v", got, err)
			}
			if _, err := d.Resource(widgets).Namespace("default").Create(t.Context(), widget(map[string]any{"size": int64(0)}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("a widget of size 0: %v", err)
			}
			// What is there is updated.
			w.Object["spec"] = map[string]any{"size": int64(7)}
			if err := s.Install(t.Context(), source, kanzentest.Objects(w)); err != nil {
				t.Fatal(err)
			}
			got, err = d.Resource(widgets).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); err != nil || size != 7 {
				t.Errorf("size %d, %v", size, err)
			}
		})
	}
}

func TestInstallSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	for want, source := range map[string]kanzentest.Source{
		"no such file":                kanzentest.Path("testdata/none"),
		"without apiVersion and kind": kanzentest.YAML("a: b"),
		"set its TypeMeta":            kanzentest.Objects(&corev1.Pod{}),
		"no matches for kind":         kanzentest.YAML("apiVersion: none.example.com/v1\nkind: None\nmetadata: {name: a}"),
		"must be plural.group":        kanzentest.YAML(strings.Replace(mustRead(t), "name: widgets.example.com", "name: wrong", 1)),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := s.Install(ctx, source)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) && want != "must be plural.group" {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func mustRead(t *testing.T) string {
	t.Helper()
	text, err := crds.ReadFile("testdata/crds/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
