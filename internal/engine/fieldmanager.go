package engine

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
)

// fields returns the field manager of the call.
func (w *write) fields() (*fieldmanager.Manager, error) {
	sub, rules := "", &w.R.Rules
	if w.sub != nil {
		sub, rules = w.sub.Name, w.sub.Rules
	}
	return w.fieldManager(sub, rules)
}

// fieldManager returns the field manager of one way of writing the kind: the
// object itself or one subresource.
func (ep *Endpoint) fieldManager(sub string, rules *Rules) (*fieldmanager.Manager, error) {
	a := ep.prepared()
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.manager[sub]; m != nil {
		return m, nil
	}
	c := fieldmanager.Config{
		Versions: ep.versionsFor, Clock: ep.e.Clock,
		Kind: ep.GVK, Hub: ep.hub.GroupVersion, Subresource: sub,
	}
	for _, v := range ep.R.Versions {
		c.Served = append(c.Served, v.GroupVersion)
	}
	if rules != nil {
		c.Reset = rules.Reset
	}
	c.Custom = ep.R.Types != nil
	var err error
	c.Types, err = ep.fieldTypes()
	var m *fieldmanager.Manager
	if err == nil {
		m, err = fieldmanager.New(c)
	}
	if err != nil {
		return nil, fmt.Errorf("field manager of %s: %w", ep.R.Plural, err)
	}
	a.manager[sub] = m
	return m, nil
}

// fieldTypes tells what the fields of the kind are.
func (ep *Endpoint) fieldTypes() (fieldmanager.Types, error) {
	if ep.R.Types != nil {
		return ep.R.Types()
	}
	return ep.e.Types, nil
}

// Fields returns what field management knows of the fields of the kind; nil: nothing.
func (ep *Endpoint) Fields() *typed.ParseableType {
	types, err := ep.fieldTypes()
	if err != nil {
		return nil
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(ep.GVK)
	t, err := types.TypeOf(like)
	if err != nil {
		return nil
	}
	return t
}

// versionsFor returns the versions for one write of the endpoint.
func (ep *Endpoint) versionsFor(ctx context.Context) fieldmanager.Versions { return converter{ep, ctx} }

// converter converts and creates objects for field management.
type converter struct {
	ep  *Endpoint
	ctx context.Context // of the conversions: the interface of the library has no place for one
}

// ConvertToVersion converts an object to one of the resource's versions. Field
// management only reads what it gets, so the hub object itself is its own conversion.
func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		gv, isGV := target.(schema.GroupVersion)
		if !isGV {
			return nil, fmt.Errorf("no version for %s", from)
		}
		to = gv.WithKind(from.Kind)
	}
	if from.GroupVersion() == to.GroupVersion() {
		return c.typed(in, from)
	}
	return c.convert(in, from, to)
}

// typed turns the untyped result of an apply into the Go type of its version.
func (c converter) typed(in runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	u, ok := in.(runtime.Unstructured)
	if !ok || !c.ep.typed {
		return in, nil
	}
	v := c.ep.version(gvk.GroupVersion())
	if v == nil {
		return in, nil
	}
	obj := v.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.UnstructuredContent(), obj, false); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", gvk, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

func (c converter) convert(in runtime.Object, from, to schema.GroupVersionKind) (runtime.Object, error) {
	vf, vt := c.ep.version(from.GroupVersion()), c.ep.version(to.GroupVersion())
	switch {
	case vt == nil && c.ep.R.Types != nil:
		// With this error, updates keep the managers as they are, and applies fail: a version can leave a definition by
		// mistake.
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to.GroupVersion())
	case vf == nil || vt == nil:
		// With this error, field management drops the fields that were managed
		// in a version that no longer exists.
		return nil, runtime.NewNotRegisteredErrForKind(c.ep.R.Plural, to)
	}
	in, err := c.typed(in, from)
	if err != nil {
		return nil, err
	}
	obj := in.DeepCopyObject().(Object)
	if vf != c.ep.hub && vf.ToHub != nil {
		if obj, err = vf.ToHub(c.ctx, obj); err != nil {
			return nil, err
		}
	}
	if vt != c.ep.hub && vt.FromHub != nil {
		if obj, err = vt.FromHub(c.ctx, obj); err != nil {
			return nil, err
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(to)
	return obj, nil
}

// version returns a version of the kind; nil if there is none.
func (ep *Endpoint) version(gv schema.GroupVersion) *Version {
	for _, v := range ep.R.Versions {
		if v.GroupVersion == gv {
			return v
		}
	}
	return nil
}

// Convert is part of runtime.ObjectConvertor; field management does not use it.
func (c converter) Convert(_, _, _ any) error { return fmt.Errorf("not supported") }

// ConvertFieldLabel is part of runtime.ObjectConvertor.
func (c converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return c.ep.fieldLabel(label, value)
}

// Default sets defaults in the result of an apply.
func (c converter) Default(in runtime.Object) {
	obj, ok := in.(Object)
	if !ok {
		return
	}
	if v := c.ep.version(in.GetObjectKind().GroupVersionKind().GroupVersion()); v != nil && v.Default != nil {
		v.Default(obj)
	}
}

// New makes the empty object that a creation starts from.
func (c converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	v := c.ep.version(gvk.GroupVersion())
	if v == nil {
		return nil, runtime.NewNotRegisteredErrForKind(c.ep.R.Plural, gvk)
	}
	obj := v.New()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// managerName returns the name under which the fields that a request sets are
// recorded.
func managerName(manager, agent string) string {
	if manager != "" {
		return manager
	}
	return managerOfAgent(agent)
}

// managerOfAgent reads the client's name from its user agent: the part before
// the version, without unprintable characters.
func managerOfAgent(agent string) string {
	name, _, _ := strings.Cut(agent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// track records in obj which fields the request has set, compared with live (an
// empty object on creation). It may return another object.
func (w *write) track(ctx context.Context, live, obj Object, manager string) (Object, error) {
	m, err := w.fields()
	if err != nil {
		return nil, err
	}
	out, err := m.Update(ctx, live, obj, managerName(manager, w.agent))
	if ctx.Err() != nil {
		return nil, ctx.Err() // without conversions the managers are lost
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out.(Object), nil
}

// sameButTimes says that two lists of managers are equal except for their
// times.
func sameButTimes(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.Manager != y.Manager || x.Operation != y.Operation || x.APIVersion != y.APIVersion ||
			x.FieldsType != y.FieldsType || x.Subresource != y.Subresource || !sameFields(x.FieldsV1, y.FieldsV1) {
			return false
		}
	}
	return true
}

func sameFields(a, b *metav1.FieldsV1) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}
