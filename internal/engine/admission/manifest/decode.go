package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// newDecoder decodes the kinds of the group in every version, so that one that cannot be used is named. Unknown fields and
// fields that occur twice are errors.
func newDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, admissionv1beta1.AddToScheme, admissionv1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	scheme.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.List{}, &metav1.Status{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// loading is the objects of a directory, as they are found.
type loading struct {
	*Directory
	objects map[string][]admission.Object
	seen    map[string]string // the files of objects, by kind and name
}

// take puts the files that were read last into force.
func (d *Directory) take(ctx context.Context, _ []byte) error {
	l := &loading{d, map[string][]admission.Object{}, map[string]string{}}
	for _, f := range d.files {
		docs, err := documents(f.data)
		if err != nil {
			return fmt.Errorf("failed to split YAML documents in file %q: %w", f.path, err)
		}
		for _, doc := range docs {
			if err := l.document(ctx, f.path, doc); err != nil {
				return fmt.Errorf("error loading %s: %w", f.path, err)
			}
		}
	}
	if err := l.checkBindings(); err != nil {
		return err
	}
	next := &loaded{number: 1, objects: l.objects}
	if now := d.now.Load(); now != nil {
		next.number = now.number + 1
	}
	for _, objs := range l.objects {
		slices.SortFunc(objs, func(a, b admission.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
		for _, obj := range objs {
			obj.SetResourceVersion("manifest-" + strconv.FormatInt(next.number, 10)) // plugins know by it what they have compiled
		}
	}
	d.now.Store(next)
	d.Log.Info("loaded admission manifests", "plugin", d.Plugin, "directory", d.Path, "files", len(d.files))
	return nil
}

// documents returns the documents of a file that are not empty.
func documents(data []byte) (docs [][]byte, err error) {
	r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		if doc = bytes.TrimSpace(doc); len(doc) > 0 {
			docs = append(docs, doc)
		}
	}
}

// document takes the objects of a document.
func (l *loading) document(ctx context.Context, path string, doc []byte) error {
	obj, gvk, err := l.decoder.Decode(doc, nil, nil)
	if err != nil {
		return err
	}
	return l.accept(ctx, path, obj, gvk)
}

// accept takes an object, a list of its kind, or a List of objects of any of the plugin's kinds.
func (l *loading) accept(ctx context.Context, path string, obj runtime.Object, gvk *schema.GroupVersionKind) error {
	if list, ok := obj.(*metav1.List); ok {
		for _, item := range list.Items {
			obj, gvk, err := l.decoder.Decode(item.Raw, nil, nil)
			if err != nil {
				return fmt.Errorf("failed to decode list item: %w", err)
			}
			if err := l.accept(ctx, path, obj, gvk); err != nil {
				return err
			}
		}
		return nil
	}
	n := slices.IndexFunc(l.Kinds, func(k Kind) bool { return k.Name == strings.TrimSuffix(gvk.Kind, "List") })
	if n < 0 || gvk.Version != admissionv1.SchemeGroupVersion.Version {
		return fmt.Errorf("unsupported resource type %T", obj)
	}
	all := []runtime.Object{obj}
	if apimeta.IsListType(obj) {
		var err error
		if all, err = apimeta.ExtractList(obj); err != nil {
			return err
		}
	}
	return l.add(ctx, path, &l.Kinds[n], all)
}

// add takes objects of a kind.
func (l *loading) add(ctx context.Context, path string, k *Kind, all []runtime.Object) error {
	for _, o := range all {
		obj := o.(admission.Object)
		if k.Default != nil {
			k.Default(obj)
		}
		if errs := k.Validate(ctx, obj); len(errs) > 0 {
			return fmt.Errorf("%s %q: %w", k.Name, obj.GetName(), errs.ToAggregate())
		}
	}
	for _, o := range all {
		obj := o.(admission.Object)
		if err := l.checkName(k, obj.GetName(), path); err != nil {
			return err
		}
		if err := check(obj, path); err != nil {
			return err
		}
		l.objects[k.Name] = append(l.objects[k.Name], obj)
	}
	return nil
}
