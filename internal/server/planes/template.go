package planes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// This file makes planes of templates.

const templatesPath = "/apis/" + Group + "/" + Version + "/planetemplates/"

// template is a PlaneTemplate: the objects that are the same in all planes, and those that have parameters.
type template struct {
	PlaneTemplate
	same, own []json.RawMessage
}

// parameter is one in a text.
var parameter = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// templateOf reads the template of a plane; an empty one if it names none.
func (f *Fleet) templateOf(ctx context.Context, p *Plane) (*template, error) {
	t := &template{}
	if p.Spec.Template == "" {
		return t, nil
	}
	if err := f.root.Do(ctx, http.MethodGet, templatesPath+p.Spec.Template, "", nil, &t.PlaneTemplate); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, p := range t.Spec.Parameters {
		known[p.Name] = true
	}
	for _, o := range t.Spec.Objects {
		personal := false
		for _, found := range parameter.FindAllSubmatch(o.Raw, -1) {
			personal = personal || known[string(found[1])]
		}
		// What comes after one that is personal may depend on it.
		if personal || len(t.own) > 0 {
			t.own = append(t.own, o.Raw)
		} else {
			t.same = append(t.same, o.Raw)
		}
	}
	return t, nil
}

// fingerprint is what the base of a template depends on.
func (t *template) fingerprint() string {
	return string(t.UID) + string(bytes.Join(rawOf(t.same), []byte{0}))
}

func rawOf(objects []json.RawMessage) (out [][]byte) {
	for _, o := range objects {
		out = append(out, o)
	}
	return out
}

// filled returns the objects with the values of a plane's parameters.
func (t *template) filled(values map[string]string) ([]json.RawMessage, error) {
	all := map[string]string{}
	for _, p := range t.Spec.Parameters {
		value, ok := values[p.Name]
		switch {
		case ok:
			all[p.Name] = value
		case p.Default != nil:
			all[p.Name] = *p.Default
		default:
			return nil, fmt.Errorf("the template %s asks for the parameter %s", t.Name, p.Name)
		}
	}
	for name := range values {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("the template %s has no parameter %s", t.Name, name)
		}
	}
	var out []json.RawMessage
	for _, o := range t.own {
		out = append(out, parameter.ReplaceAllFunc(o, func(found []byte) []byte {
			value, ok := all[string(found[2:len(found)-1])]
			if !ok {
				return found
			}
			quoted, err := json.Marshal(value)
			if err != nil {
				return found
			}
			return quoted[1 : len(quoted)-1] // it is inside of a text
		}))
	}
	return out, nil
}

// unknownFor is how long a kind may be unknown: one is served a moment after its definition was applied.
const unknownFor = 2 * time.Second

// apply applies objects, in their order.
func (t *template) apply(ctx context.Context, f *Fleet, own api, objects []json.RawMessage) error {
	waiting, cancel := context.WithTimeout(ctx, unknownFor)
	defer cancel()
	for _, raw := range objects {
		var o unstructured.Unstructured
		if err := json.Unmarshal(raw, &o.Object); err != nil {
			return err
		}
		for {
			err := applyOne(ctx, own, &o)
			if err == nil {
				break
			}
			if !errors.As(err, new(*unknownKindError)) || f.pause(waiting) != nil {
				return fmt.Errorf("object %s %s of the template %s: %w", o.GetKind(), o.GetName(), t.Name, err)
			}
		}
	}
	return nil
}

// unknownKindError says that a kind is not served.
type unknownKindError struct{ schema.GroupVersionKind }

func (e *unknownKindError) Error() string { return "no resource serves " + e.String() }

// applyOne applies one object.
func applyOne(ctx context.Context, own api, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	base := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		base = "/api/" + gvk.Version
	}
	var list struct {
		Resources []struct {
			Name       string `json:"name"`
			Kind       string `json:"kind"`
			Namespaced bool   `json:"namespaced"`
		} `json:"resources"`
	}
	if err := own.Do(ctx, http.MethodGet, base, "", nil, &list); err != nil {
		return &unknownKindError{gvk}
	}
	for _, r := range list.Resources {
		if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		path := base
		if r.Namespaced {
			ns := o.GetNamespace()
			if ns == "" {
				ns = "default"
			}
			path += "/namespaces/" + ns
		}
		path += "/" + r.Name + "/" + o.GetName() + "?force=true&fieldManager=" + agent
		return own.Do(ctx, http.MethodPatch, path, apiclient.ApplyPatch, o.Object, nil)
	}
	return &unknownKindError{gvk}
}
