package exports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/api/builtin/apiextensions"
)

// offer is an export as it is now.
type offer struct {
	export *Export
	plane  Plane
	// definitions are those of its kinds, as consumers get them, and claimed those of claims that are for kinds of the provider's.
	definitions, claimed []*apiextensionsv1.CustomResourceDefinition
	// schema identifies definitions, view all that the provider's view depends on, and hash everything.
	schema, view, hash string
	// by and since are those of the provider's stay in the log.
	by, since int64
	// wrong says why some of its kinds cannot be bound.
	wrong []string
}

// makeOffer reads an export; nil: there is none.
func (e *Exports) makeOffer(ctx context.Context, r ref) (*offer, error) {
	p, ok := e.Planes.Find(r.plane)
	if !ok {
		return nil, nil
	}
	stay, err := e.Planes.Stay(ctx, p.UID)
	if err != nil {
		return nil, err
	}
	o := &offer{export: &Export{}, plane: p, by: stay.By, since: stay.Since}
	if found, err := e.read(ctx, p, "exports", r.name, o.export); err != nil || !found || o.export.DeletionTimestamp != nil {
		return nil, err
	}
	for _, of := range o.export.Spec.Resources {
		d, err := e.definition(ctx, p, of)
		if err != nil {
			return nil, err
		}
		if why := unfit(d, of); why != "" {
			o.wrong = append(o.wrong, why)
			continue
		}
		o.definitions = append(o.definitions, asOffered(d))
	}
	for _, c := range o.export.Spec.Claims {
		if c.Group == "" {
			continue
		}
		d, err := e.definition(ctx, p, c.GroupResource)
		if err != nil {
			return nil, err
		}
		if d != nil {
			o.claimed = append(o.claimed, asOffered(d))
		}
	}
	o.schema = hashOf(o.definitions)
	o.view = hashOf([]any{o.export.UID, p.UID, o.by, o.since, o.export.Spec.Resources, o.export.Spec.Claims, o.definitions, o.claimed})
	o.hash = hashOf([]any{o.export.UID, o.export.Spec, o.definitions, o.claimed, p.UID})
	return o, nil
}

func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // no type of this package has such a value
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// definition reads a definition of a plane; nil: it has none.
func (e *Exports) definition(ctx context.Context, p Plane, of GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
	value, err := e.stored(ctx, p, GroupResource{apiextensionsv1.GroupName, "customresourcedefinitions"}, definitionsKey+of.String())
	if err != nil || value == nil {
		return nil, err
	}
	d, err := apiextensions.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("definition %s of plane %s: %w", of, p.Name, err)
	}
	return d, nil
}

// unfit says why a definition cannot be offered; "": it can.
func unfit(d *apiextensionsv1.CustomResourceDefinition, of GroupResource) string {
	switch {
	case d == nil || d.DeletionTimestamp != nil:
		return fmt.Sprintf("there is no definition %s", of)
	case d.Annotations[exportAnnotation] != "":
		return fmt.Sprintf("the definition %s comes from the export %s itself", of, d.Annotations[exportAnnotation])
	case d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter:
		return fmt.Sprintf("the definition %s is converted by a webhook, which other planes cannot call", of)
	case !slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	}):
		return fmt.Sprintf("the definition %s is not established", of)
	}
	return ""
}

// asOffered is a definition as consumers get it: its spec, and the annotations that say how its objects are served.
func asOffered(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Annotations: map[string]string{}}, Spec: d.Spec}
	for name, value := range d.Annotations {
		if name == apiextensionsv1.KubeAPIApprovedAnnotation || strings.HasPrefix(name, "flightrecorder.kanzen.io/") {
			out.Annotations[name] = value
		}
	}
	return out
}

// allows reports whether a plane may bind the export.
func (o *offer) allows(consumer Plane) bool {
	c := o.export.Spec.Consumers
	if c.All || slices.Contains(c.Planes, consumer.Name) {
		return true
	}
	if c.Selector == nil {
		return false
	}
	which, err := metav1.LabelSelectorAsSelector(c.Selector)
	return err == nil && which.Matches(labels.Set(consumer.Labels))
}

// offered returns an export as it was last looked at; nil: there is none. One that nobody has looked at yet is.
func (e *Exports) offered(ctx context.Context, r ref) (*offer, error) {
	e.mu.Lock()
	o := e.offers[r]
	e.mu.Unlock()
	if p, ok := e.Planes.Find(r.plane); o != nil && ok && p.UID == o.plane.UID {
		return o, nil
	}
	return e.takeUp(ctx, r)
}

// takeUp reads an export, and has its bindings looked at if it is another one than before.
func (e *Exports) takeUp(ctx context.Context, r ref) (*offer, error) {
	o, err := e.makeOffer(ctx, r)
	if err != nil {
		return nil, err
	}
	e.views.replace(r, o)
	e.mu.Lock()
	was := e.offers[r]
	if o == nil {
		delete(e.offers, r)
	} else {
		e.offers[r] = o
	}
	e.mu.Unlock()
	if (was == nil) != (o == nil) || was != nil && (was.hash != o.hash || !slices.Equal(was.wrong, o.wrong)) {
		for _, all := range append(e.Others(), e) {
			all.rebind(func(of ref) bool { return of == r })
		}
	}
	return o, nil
}

// lookAtExport takes up an export as it is now, and writes its status.
func (e *Exports) lookAtExport(ctx context.Context, r ref) error {
	o, err := e.takeUp(ctx, r)
	if err != nil || o == nil {
		return err
	}
	status := ExportStatus{Schema: o.schema, Conditions: slices.Clone(o.export.Status.Conditions)}
	records, err := readRecords(ctx, e.DB, recordsOf(o.plane.UID, r.name), 0)
	if err != nil {
		return err
	}
	status.Bindings = int64(len(records))
	offered := metav1.Condition{Type: Offered, Status: metav1.ConditionTrue, Reason: "Offered", Message: "all kinds can be bound"}
	if len(o.wrong) > 0 {
		offered.Status, offered.Reason, offered.Message = metav1.ConditionFalse, "NotDefined", strings.Join(o.wrong, "; ")
	}
	e.setCondition(&status.Conditions, offered, o.export.Generation)
	if sameJSON(status, o.export.Status) {
		return nil
	}
	counted := o.export.Status
	counted.Bindings = status.Bindings
	if sameJSON(status, counted) && !e.Planes.Awake(r.plane) {
		return nil // the number is written when somebody is there to see it
	}
	return e.api(r.plane).status(ctx, "exports", r.name, o.export.UID, status)
}

// isOf reports whether an object is owned by another.
func isOf(o *metav1.ObjectMeta, owner types.UID) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner })
}
