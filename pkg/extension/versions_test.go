package extension_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

// OldThing is a Thing as v1beta1 has it: its size is a text.
type OldThing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	HowLarge          string `json:"howLarge" doc:"The size, in words."`
}

const colorKey = "example.com/color"

// versions are v1alpha1, which is v1 by another name, and v1beta1, which keeps the color in an annotation.
func versions() []extension.Version[Thing] {
	return []extension.Version[Thing]{
		{Name: "v1alpha1", Deprecated: true, Warning: "use v1"},
		extension.VersionOf("v1beta1", func(o *OldThing) (*Thing, error) {
			size, err := strconv.Atoi(o.HowLarge)
			if err != nil {
				return nil, errors.New("howLarge is no number")
			}
			n := &Thing{ObjectMeta: o.ObjectMeta, Spec: ThingSpec{Size: size, Color: o.Annotations[colorKey]}}
			delete(n.Annotations, colorKey)
			return n, nil
		}, func(n *Thing) (*OldThing, error) {
			o := &OldThing{ObjectMeta: n.ObjectMeta, HowLarge: strconv.Itoa(n.Spec.Size)}
			if n.Spec.Color != "" {
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, colorKey, n.Spec.Color)
			}
			return o, nil
		}),
	}
}

func version(t *testing.T, c *rest.Config, name string) dynamic.ResourceInterface {
	t.Helper()
	gvr := things
	gvr.Version = name
	return dynamic.NewForConfigOrDie(c).Resource(gvr).Namespace("default")
}

func oldThing(name, howLarge string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1beta1", "kind": "Thing",
		"metadata": map[string]any{"name": name}, "howLarge": howLarge}}
}

// A kind in several versions is one set of objects, wherever they are: written in one version, they are seen in all.
func TestVersions(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]extension.Kind[Thing]{"storage": {}, "functions": {Functions: newTable().functions()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k.Versions = versions()
			c := start(t, k, nil)
			ctx, v1, old, alpha := t.Context(), in(t, c), version(t, c, "v1beta1"), version(t, c, "v1alpha1")
			w, err := old.Watch(ctx, metav1.ListOptions{})
			must(t, err)
			defer w.Stop()
			_, err = v1.Create(ctx, thing("a", map[string]any{"size": int64(7), "color": "red"}), metav1.CreateOptions{})
			must(t, err)
			e := <-w.ResultChan()
			if seen, ok := e.Object.(*unstructured.Unstructured); !ok || e.Type != watch.Added || seen.Object["howLarge"] != "7" || seen.GetAnnotations()[colorKey] != "red" {
				t.Errorf("%s %v", e.Type, e.Object)
			}
			got, err := old.Get(ctx, "a", metav1.GetOptions{})
			must(t, err)
			got.Object["howLarge"] = "8"
			_, err = old.Update(ctx, got, metav1.UpdateOptions{})
			must(t, err)
			next(t, w, watch.Modified, "a")
			_, err = old.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"1"}}}`), metav1.PatchOptions{})
			must(t, err)
			_, err = old.Apply(ctx, "b", oldThing("b", "3"), metav1.ApplyOptions{FieldManager: "m"})
			must(t, err)
			now, err := v1.Get(ctx, "a", metav1.GetOptions{})
			must(t, err)
			size, _, _ := unstructured.NestedInt64(now.Object, "spec", "size")
			color, _, _ := unstructured.NestedString(now.Object, "spec", "color")
			if size != 8 || color != "red" || now.GetLabels()["l"] != "1" || now.GetAnnotations()[colorKey] != "" {
				t.Errorf("in v1 it is %v", now.Object)
			}
			list, err := alpha.List(ctx, metav1.ListOptions{})
			must(t, err)
			var names []string
			for _, i := range list.Items {
				names = append(names, i.GetAPIVersion()+" "+i.GetName())
			}
			if want := []string{"example.com/v1alpha1 a", "example.com/v1alpha1 b"}; !slices.Equal(names, want) {
				t.Errorf("%q, want %q", names, want)
			}
			must(t, alpha.Delete(ctx, "b", metav1.DeleteOptions{}))

			groups, err := discovery.NewDiscoveryClientForConfigOrDie(c).ServerGroups()
			must(t, err)
			n := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == things.Group })
			if n < 0 || len(groups.Groups[n].Versions) != 3 || groups.Groups[n].PreferredVersion.Version != "v1" {
				t.Errorf("%+v", groups.Groups)
			}
			for _, v := range []string{"v1", "v1alpha1", "v1beta1"} {
				body, err := discovery.NewDiscoveryClientForConfigOrDie(c).RESTClient().Get().AbsPath("/openapi/v3/apis/example.com/" + v).DoRaw(ctx)
				must(t, err)
				if strings.Contains(string(body), "howLarge") != (v == "v1beta1") {
					t.Errorf("the document of %s", v)
				}
			}
		})
	}
}

// The author's Validate judges objects as it knows them, and what it or a conversion refuses is not stored.
func TestVersionsAreValidated(t *testing.T) {
	t.Parallel()
	k := extension.Kind[Thing]{Versions: versions(), Validate: func(_ context.Context, now, old *Thing) field.ErrorList {
		switch {
		case now.Spec.Size > 10:
			return field.ErrorList{field.Invalid(field.NewPath("spec", "size"), now.Spec.Size, "too large")}
		case old != nil && now.Spec.Size < old.Spec.Size:
			return field.ErrorList{field.Forbidden(field.NewPath("spec", "size"), "it only grows")}
		}
		return nil
	}}
	c := start(t, k, nil)
	ctx, old, v1 := t.Context(), version(t, c, "v1beta1"), in(t, c)
	_, err := old.Create(ctx, oldThing("a", "11"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
	if _, err = old.Create(ctx, oldThing("a", "many"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "howLarge is no number") {
		t.Error(err)
	}
	if _, err = old.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1beta1", "kind": "Thing",
		"metadata": map[string]any{"name": "a"}}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "howLarge") {
		t.Error(err)
	}
	if _, err = v1.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was stored: %v", err)
	}
	_, err = old.Create(ctx, oldThing("a", "5"), metav1.CreateOptions{})
	must(t, err)
	_, err = old.Patch(ctx, "a", types.MergePatchType, []byte(`{"howLarge":"4"}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "it only grows") {
		t.Error(err)
	}
	if _, err = v1.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":6}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// What is wrong with versions is said at the start.
func TestVersionsRefused(t *testing.T) {
	t.Parallel()
	same := func(o *OldThing) (*Thing, error) { return &Thing{}, nil }
	back := func(*Thing) (*OldThing, error) { return &OldThing{}, nil }
	for name, v := range map[string][]extension.Version[Thing]{
		"it is there twice": {{Name: "v1"}}, "version v2: it is there twice": {{Name: "v2"}, extension.VersionOf("v2", same, back)}, "spec.versions[1].name": {{Name: "V_2"}},
	} {
		s := &extension.Server{Group: things.Group, Version: things.Version}
		extension.Add(s, extension.Kind[Thing]{Versions: v})
		_, err := s.Start(t.Context(), extension.Options{Host: &rest.Config{Host: "https://127.0.0.1:1"}, Listen: "127.0.0.1:0", Storage: extension.Memory()})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
