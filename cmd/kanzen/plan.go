package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// plan is what a bundle would do.
type plan struct {
	Objects []plannedObject  `json:"objects"`
	Others  []bundlev1.Other `json:"others,omitempty"`
	// Consequences are the objects that controllers write afterwards; Hidden counts those that the user may not see, and Unsettled says
	// that controllers still worked when it was looked.
	Consequences []plannedObject `json:"consequences,omitempty"`
	Hidden       int             `json:"hidden,omitempty"`
	Unsettled    bool            `json:"unsettled,omitempty"`
	// Refused are the reasons why nothing would be written.
	Refused []refusedObject `json:"refused,omitempty"`
	// Skipped are kinds that could not be compared.
	Skipped []skippedKind `json:"skipped,omitempty"`
}

// skippedKind is a kind that could not be compared.
type skippedKind struct {
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	Reason   string `json:"reason"`
}

// refusedObject is an item that is refused.
type refusedObject struct {
	Item    string `json:"item,omitempty"` // none: all of it
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// plannedObject is an object, and what would become of it.
type plannedObject struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Namespace  string         `json:"namespace,omitempty"`
	Name       string         `json:"name"`
	Result     string         `json:"result"`
	Fields     []plannedField `json:"fields,omitempty"`
	Warnings   []string       `json:"warnings,omitempty"`
}

// plannedField is a field that would change; nil: it is not there.
type plannedField struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// planOf compares the objects of a bundle's dry run with those that there are.
func planOf(ctx context.Context, s *asker, b *bundlev1.Bundle) (*plan, error) {
	resources, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{Objects: []plannedObject{}, Others: b.Status.Others, Hidden: b.Status.Hidden, Unsettled: b.Status.Unsettled}
	items := map[string]*unstructured.Unstructured{}
	for _, i := range b.Status.Items {
		after, err := objectOf(i.Object.Raw)
		if err != nil {
			return nil, err
		}
		items[calledObject(after)] = after
		o := planned(after, i.Result)
		o.Warnings = i.Warnings
		if i.Result == bundlev1.Changed {
			before, err := s.object(ctx, resources, after)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", calledObject(after), err)
			}
			o.Fields = changedFields(before, after)
		}
		p.Objects = append(p.Objects, o)
	}
	for _, c := range b.Status.Consequences {
		o := plannedObject{APIVersion: c.APIVersion, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Result: c.Result}
		if c.Result == bundlev1.Changed {
			if o, err = consequence(ctx, s, resources, items, c.Object.Raw); err != nil {
				return nil, err
			}
		}
		p.Consequences = append(p.Consequences, o)
	}
	return p, nil
}

// consequence compares what controllers make of an object with what the manifests have made of it, or with what it is now.
func consequence(ctx context.Context, s *asker, resources []served, items map[string]*unstructured.Unstructured, raw []byte) (plannedObject, error) {
	after, err := objectOf(raw)
	if err != nil {
		return plannedObject{}, err
	}
	o := planned(after, bundlev1.Changed)
	before := items[calledObject(after)]
	if before == nil || before.GroupVersionKind() != after.GroupVersionKind() {
		if before, err = s.object(ctx, resources, after); err != nil {
			var refused *refusedError
			if errors.As(err, &refused) && refused.code == http.StatusNotFound {
				return o, nil // the write of an item has made it
			}
			return o, fmt.Errorf("%s: %w", calledObject(after), err)
		}
	}
	o.Fields = changedFields(before, after)
	return o, nil
}

func planned(o *unstructured.Unstructured, result string) plannedObject {
	return plannedObject{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Result: result}
}

// refusedPlan is the plan of what is refused; nil: that is not the reason of an error.
func refusedPlan(err error) *plan {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return nil
	}
	p := &plan{Objects: []plannedObject{}}
	if status.ErrStatus.Code == http.StatusRequestEntityTooLarge {
		p.Refused = []refusedObject{{Reason: string(status.ErrStatus.Reason), Message: status.ErrStatus.Message}}
		return p
	}
	if status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return nil
	}
	for _, c := range status.ErrStatus.Details.Causes {
		if !strings.HasPrefix(c.Field, "spec.items[") {
			return nil
		}
		p.Refused = append(p.Refused, refusedObject{Item: c.Field, Reason: string(c.Type), Message: c.Message})
	}
	return p
}

// object returns an object as it is now, in the version of another.
func (a *asker) object(ctx context.Context, all []served, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := like.GroupVersionKind()
	for _, r := range all {
		if r.group == kind.Group && r.ResponseKind != nil && r.ResponseKind.Kind == kind.Kind {
			r.version = kind.Version
			return a.read(ctx, r.path(like.GetNamespace(), like.GetName()))
		}
	}
	return nil, errors.New("the server does not list its kind")
}

// read returns the object at a path.
func (a *asker) read(ctx context.Context, path string) (*unstructured.Unstructured, error) {
	var text json.RawMessage
	if err := a.get(ctx, path, &text); err != nil {
		return nil, err
	}
	return objectOf(text)
}

// bookkeeping are fields that change with every write.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation"}

// changedFields compares two objects, field by field.
func changedFields(before, after *unstructured.Unstructured) (out []plannedField) {
	for _, o := range []*unstructured.Unstructured{before, after} {
		meta, _ := o.Object["metadata"].(map[string]any)
		for _, name := range bookkeeping {
			delete(meta, name)
		}
	}
	jsonobject.Differences(before.Object, after.Object, func(path string, a, b any) bool {
		out = append(out, plannedField{path, unlessSecret(before.GetKind(), a), unlessSecret(after.GetKind(), b)})
		return true
	})
	return out
}

// hiddenValue stands for a value that is not shown.
type hiddenValue string

const hidden hiddenValue = "(hidden)"

// unlessSecret is a value of an object, or hidden if the object is a secret. What commands tell about the fields of objects is shown to
// many, as text or JSON; get is for those who want to see a secret.
func unlessSecret(kind string, v any) any {
	if v != nil && kind == "Secret" {
		return hidden
	}
	return v
}

// signs stand before what has a result.
var signs = map[string]string{bundlev1.Created: "+", bundlev1.Changed: "~", bundlev1.Unchanged: " ", bundlev1.Deleted: "-"}

// print prints a plan for people.
func (p *plan) print(w io.Writer) {
	for _, r := range p.Refused {
		tell(w, "! %s\n    %s\n", cmp.Or(r.Item, "all of it"), r.Message)
	}
	if len(p.Refused) > 0 {
		tell(w, "\n%d refused; nothing would be written.\n", len(p.Refused))
		return
	}
	counts := map[string]int{}
	for _, o := range p.Objects {
		counts[o.Result]++
		o.print(w)
	}
	if len(p.Others) > 0 {
		tell(w, "\nWritten besides:\n")
	}
	for _, o := range p.Others {
		tell(w, "%s %s\n", cmp.Or(signs[o.Result], "?"), named(o.Resource, o.Namespace, o.Name))
	}
	if len(p.Consequences)+p.Hidden > 0 || p.Unsettled {
		tell(w, "\nWritten by controllers afterwards:\n")
	}
	for _, o := range p.Consequences {
		o.print(w)
	}
	if p.Hidden > 0 {
		tell(w, "and %d objects that you may not see\n", p.Hidden)
	}
	for _, k := range p.Skipped {
		tell(w, "? %s: %s\n", strings.TrimSuffix(k.Resource+"."+k.Group, "."), k.Reason)
	}
	if p.Unsettled {
		tell(w, "and more: the controllers were not done in time\n")
	}
	tell(w, "\n%d created, %d changed, %d deleted, %d unchanged.\n", counts[bundlev1.Created], counts[bundlev1.Changed], counts[bundlev1.Deleted], counts[bundlev1.Unchanged])
}

func (o *plannedObject) print(w io.Writer) {
	tell(w, "%s %s\n", cmp.Or(signs[o.Result], "?"), named(o.Kind, o.Namespace, o.Name))
	for _, f := range o.Fields {
		tell(w, "    %s: %s → %s\n", f.Path, shownValue(f.Before), shownValue(f.After))
	}
	for _, warning := range o.Warnings {
		tell(w, "    warning: %s\n", warning)
	}
}

// maxValue bounds a value that is shown, in bytes.
const maxValue = 80

// shownValue is a value in one line.
func shownValue(v any) string {
	switch v {
	case nil:
		return "(none)"
	case hidden:
		return string(hidden)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(string(text[:maxValue]), "") + "…"
	}
	return string(text)
}

// objectOf reads an object, with its numbers as they are: those of json.Unmarshal have 53 bits.
func objectOf(raw []byte) (*unstructured.Unstructured, error) {
	content, err := jsonobject.Unmarshal(raw)
	return &unstructured.Unstructured{Object: content}, err
}

// calledObject is how an object is called.
func calledObject(o *unstructured.Unstructured) string {
	return named(o.GetKind(), o.GetNamespace(), o.GetName())
}

func named(kind, namespace, name string) string {
	if namespace == "" {
		return strings.ToLower(kind) + "/" + name
	}
	return strings.ToLower(kind) + "/" + name + " in " + namespace
}
