package exports

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// Guards are the plugins of admission of a plane: they keep its users from changing definitions that bindings have brought, and
// providers from objects that their claims do not select.
func (e *Exports) Guards(plane types.UID) admission.Chain {
	return admission.Chain{
		{Name: "BoundDefinitions", Of: definitionsResource, Validator: admission.Func(guardDefinitions)},
		{Name: "ExportClaims", Validator: admission.Func(func(ctx context.Context, a *admission.Attributes) error { return e.guardClaims(ctx, plane, a) })},
	}
}

var definitionsResource = []schema.GroupResource{{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}}

// guardDefinitions refuses what users may not do with definitions. What the server itself does has come through no port: a user
// who impersonates one of its users is still refused.
func guardDefinitions(ctx context.Context, a *admission.Attributes) error {
	if inprocess.Inside(ctx) && !isProvider(a) {
		return nil
	}
	refuse := func(why string, args ...any) error {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, fmt.Errorf(why, args...))
	}
	old, _ := a.OldObject.(*apiextensionsv1.CustomResourceDefinition)
	now, _ := a.Object.(*apiextensionsv1.CustomResourceDefinition)
	if old != nil && old.Annotations[exportAnnotation] != "" {
		from, by := old.Annotations[exportAnnotation], bindingOf(old)
		switch {
		case a.Operation == admission.Delete:
			return refuse("it comes from the export %s; delete the binding %s instead, and it goes too", from, by)
		case a.Subresource != "":
			return refuse("it comes from the export %s, and its status is not to be changed", from)
		case now != nil && (!sameJSON(old.Spec, now.Spec) || now.Annotations[exportAnnotation] != from || !sameJSON(old.OwnerReferences, now.OwnerReferences)):
			return refuse("it comes from the export %s by the binding %s; only labels and annotations of others can be changed here", from, by)
		}
		return nil
	}
	switch {
	case now == nil:
		return nil
	case now.Annotations[exportAnnotation] != "":
		return refuse("the annotation %s is set by bindings only", exportAnnotation)
	case now.Spec.Group == Group:
		return refuse("the group %s has kinds of the server only", Group)
	}
	return nil
}

// isProvider reports whether an export writes.
func isProvider(a *admission.Attributes) bool {
	return a.User != nil && strings.HasPrefix(a.User.GetName(), userPrefix)
}

func bindingOf(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, r := range d.OwnerReferences {
		if r.Kind == "Binding" {
			return r.Name
		}
	}
	return ""
}

// guardClaims refuses a provider's write of an object that is not among those that a claim selects, before or after it.
func (e *Exports) guardClaims(ctx context.Context, plane types.UID, a *admission.Attributes) error {
	if !isProvider(a) || !inprocess.Inside(ctx) {
		return nil
	}
	from, name, _ := strings.Cut(strings.TrimPrefix(a.User.GetName(), userPrefix), ":")
	of := GroupResource{a.Resource.Group, a.Resource.Resource}
	refuse := func(why string) error {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, fmt.Errorf("the export %s/%s %s", from, name, why))
	}
	p, _ := e.Planes.Find(from)
	records, err := readRecords(ctx, e.DB, recordsOf(p.UID, name)+string(plane), 0)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	r := records[""]
	if r == nil {
		return refuse("is not bound here")
	}
	which, _ := r.shows(of)
	if g := r.grant(of); g != nil {
		if which, err = g.selector(); err != nil {
			return refuse("has a claim that cannot be read")
		}
	}
	if which == nil {
		return refuse("has no rights to them")
	}
	for _, object := range []runtime.Object{a.OldObject, a.Object} {
		if !selects(which, object) {
			return refuse("has rights only to those that match " + which.String())
		}
	}
	return nil
}

func selects(which labels.Selector, object runtime.Object) bool {
	if object == nil || which.Empty() {
		return true
	}
	about, err := meta.Accessor(object)
	return err == nil && which.Matches(labels.Set(about.GetLabels()))
}
