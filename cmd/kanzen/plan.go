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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	bundlev1 "github.com/kanzen-io/kanzen/internal/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/jsonobject"
)

// plan is what a bundle would do.
type plan struct {
	Objects []plannedObject  `json:"objects"`
	Others  []bundlev1.Other `json:"others,omitempty"`
}

// plannedObject is an object of the manifests, and what would become of it.
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
	p := &plan{Others: b.Status.Others}
	for _, i := range b.Status.Items {
		after, err := objectOf(i.Object.Raw)
		if err != nil {
			return nil, err
		}
		o := plannedObject{APIVersion: after.GetAPIVersion(), Kind: after.GetKind(), Namespace: after.GetNamespace(), Name: after.GetName(), Result: i.Result, Warnings: i.Warnings}
		if i.Result == bundlev1.Changed {
			before, err := s.object(ctx, resources, after)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", calledObject(after), err)
			}
			o.Fields = changedFields(before.Object, after.Object)
		}
		p.Objects = append(p.Objects, o)
	}
	return p, nil
}

// object returns an object as it is now, in the version of another.
func (a *asker) object(ctx context.Context, all []served, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := like.GroupVersionKind()
	for _, r := range all {
		if r.group == kind.Group && r.ResponseKind != nil && r.ResponseKind.Kind == kind.Kind {
			r.version = kind.Version
			var out unstructured.Unstructured
			err := a.ask(ctx, http.MethodGet, r.path(like.GetNamespace(), like.GetName()), "", nil, &out.Object)
			return &out, err
		}
	}
	return nil, errors.New("the server does not list its kind")
}

// bookkeeping are fields that change with every write.
var bookkeeping = []string{"managedFields", "resourceVersion", "generation"}

// changedFields compares two objects, field by field.
func changedFields(before, after map[string]any) (out []plannedField) {
	for _, o := range []map[string]any{before, after} {
		meta, _ := o["metadata"].(map[string]any)
		for _, name := range bookkeeping {
			delete(meta, name)
		}
	}
	jsonobject.Differences(before, after, func(path string, a, b any) bool {
		out = append(out, plannedField{path, a, b})
		return true
	})
	return out
}

// signs stand before what has a result.
var signs = map[string]string{bundlev1.Created: "+", bundlev1.Changed: "~", bundlev1.Unchanged: " ", bundlev1.Deleted: "-"}

// print prints a plan for people.
func (p *plan) print(w io.Writer) {
	counts := map[string]int{}
	for _, o := range p.Objects {
		counts[o.Result]++
		tell(w, "%s %s\n", cmp.Or(signs[o.Result], "?"), named(o.Kind, o.Namespace, o.Name))
		for _, f := range o.Fields {
			tell(w, "    %s: %s → %s\n", f.Path, shownValue(o.Kind, f.Before), shownValue(o.Kind, f.After))
		}
		for _, warning := range o.Warnings {
			tell(w, "    warning: %s\n", warning)
		}
	}
	if len(p.Others) > 0 {
		tell(w, "\nWritten besides:\n")
	}
	for _, o := range p.Others {
		tell(w, "%s %s\n", cmp.Or(signs[o.Result], "?"), named(o.Resource, o.Namespace, o.Name))
	}
	tell(w, "\n%d created, %d changed, %d deleted, %d unchanged.\n", counts[bundlev1.Created], counts[bundlev1.Changed], counts[bundlev1.Deleted], counts[bundlev1.Unchanged])
}

// maxValue bounds a value that is shown, in bytes.
const maxValue = 80

// shownValue is a value in one line. Those of secrets are not shown.
func shownValue(kind string, v any) string {
	if v == nil {
		return "(none)"
	}
	if kind == "Secret" {
		return "(hidden)"
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

// objectOf reads an object.
func objectOf(raw []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, json.Unmarshal(raw, &o.Object)
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
