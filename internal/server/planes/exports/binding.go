package exports

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// This file makes bindings what they are to be.

// binding is one that is looked at.
type binding struct {
	*Exports
	*Binding
	ref    ref
	of     ref // the export
	plane  Plane
	api    api
	status BindingStatus // as it is to be
}

// lookAtBinding makes one binding what it is to be.
func (e *Exports) lookAtBinding(ctx context.Context, r ref) error {
	p, ok := e.Planes.Find(r.plane)
	b := &binding{Exports: e, Binding: &Binding{}, ref: r, plane: p, api: e.api(r.plane)}
	if ok {
		var err error
		if ok, err = e.read(ctx, p, "bindings", r.name, b.Binding); err != nil {
			return err
		}
	}
	if !ok {
		e.hold(p.UID, r, nil)
		return e.forget(ctx, r, p)
	}
	if _, err := e.Planes.Stay(ctx, p.UID); err != nil {
		return err
	}
	b.of = ref{b.Spec.Export.Plane, b.Spec.Export.Name}
	e.mu.Lock()
	e.bound[r] = b.of
	e.mu.Unlock()
	if b.DeletionTimestamp != nil {
		return b.unbind(ctx)
	}
	b.status = BindingStatus{ExportUID: b.Status.ExportUID, Schema: b.Status.Schema, Conditions: slices.Clone(b.Status.Conditions)}
	o, err := e.offered(ctx, b.of)
	if err != nil {
		return err
	}
	if err := b.bind(ctx, o); err != nil {
		return err
	}
	e.hold(p.UID, r, b.waits(o))
	if !sameJSON(b.status, b.Status) {
		return b.api.status(ctx, "bindings", b.Name, b.UID, b.status)
	}
	return nil
}

// waits returns the prefixes of the objects that have to change for a schema that is held back.
func (b *binding) waits(o *offer) (prefixes []string) {
	if fits := meta.FindStatusCondition(b.status.Conditions, SchemasFit); o == nil || fits == nil || fits.Reason != heldBack {
		return nil
	}
	for _, d := range o.definitions {
		prefixes = append(prefixes, d.Spec.Group+"/"+d.Spec.Names.Plural+"/")
	}
	return prefixes
}

// forget is for a binding that is gone. Somebody may have taken its finalizer away.
func (e *Exports) forget(ctx context.Context, r ref, p Plane) error {
	e.mu.Lock()
	of, known := e.bound[r]
	delete(e.bound, r)
	e.mu.Unlock()
	switch {
	case p.UID == "":
		return nil // sweep removes what is left of the plane
	case !known:
		return e.revokeAny(ctx, p, r.name)
	}
	e.queue.Add(exportName(of))
	return e.revoke(ctx, of, p, r.name)
}

// say sets a condition.
func (b *binding) say(what string, is bool, reason, message string) {
	c := metav1.Condition{Type: what, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if is {
		c.Status = metav1.ConditionTrue
	}
	b.setCondition(&b.status.Conditions, c, b.Generation)
}

// refuse says why the binding is not in force, and takes the provider's view away. What is stored stays.
func (b *binding) refuse(ctx context.Context, reason, message string) error {
	b.say(Bound, false, reason, message)
	b.queue.Add(exportName(b.of))
	return b.revoke(ctx, b.of, b.plane, b.Name)
}

// bind puts a binding into force, as far as it may be.
func (b *binding) bind(ctx context.Context, o *offer) error {
	if o == nil && b.isElsewhere() {
		return b.revoke(ctx, b.of, b.plane, b.Name)
	}
	switch {
	case o == nil || !o.allows(b.plane):
		// One message for all: who may not bind learns nothing.
		message := fmt.Sprintf("there is no export %s for this plane", b.of)
		b.say(ConsumerAllowed, false, "NoExport", message)
		return b.refuse(ctx, "NoExport", message)
	case b.status.ExportUID != "" && b.status.ExportUID != o.export.UID:
		message := fmt.Sprintf("the export %s is not the one that was bound; to bind it, delete this binding and create it anew", b.of)
		b.say(ConsumerAllowed, false, "AnotherExport", message)
		return b.refuse(ctx, "AnotherExport", message)
	}
	b.say(ConsumerAllowed, true, "Allowed", "the export is for this plane")
	if s, err := b.standing(ctx, o); err != nil || s == nil {
		return err
	}
	if !slices.Contains(b.Finalizers, finalizer) {
		if err := b.api.finalizers(ctx, b.Binding, append(slices.Clone(b.Finalizers), finalizer)); err != nil {
			return err
		}
	}
	served, err := b.define(ctx, o)
	if err != nil {
		return err
	}
	if served == nil { // a condition says why
		return b.revoke(ctx, b.of, b.plane, b.Name)
	}
	grants, whole := granted(o.export.Spec.Claims, b.Spec.Accept)
	if whole {
		b.say(ClaimsAccepted, true, "Accepted", "all claims of the export are accepted")
	} else {
		b.say(ClaimsAccepted, false, "NotAccepted", "not accepted as they are: "+missing(o.export.Spec.Claims, b.Spec.Accept))
	}
	r := &record{Plane: b.plane.Name, Binding: b.Name, Resources: served, Claims: grants}
	if err := b.allow(ctx, r); err != nil {
		return err
	}
	if ok, err := b.record(ctx, o, r); err != nil || !ok {
		return err
	}
	b.status.ExportUID = o.export.UID
	b.say(Bound, true, "Bound", fmt.Sprintf("the kinds of the export %s are served", b.of))
	return nil
}

// isElsewhere reports whether an export that is not in this log is in another one, for this plane, and says so. It does not read that log,
// which may be away: as long as what is offered there is not known, the binding is as it was before.
func (b *binding) isElsewhere() bool {
	for _, other := range b.Others() {
		if _, there := other.Planes.Find(b.of.plane); !there {
			continue
		}
		other.mu.Lock()
		o := other.offers[b.of]
		other.mu.Unlock()
		if o == nil || !o.allows(b.plane) {
			return o == nil && !other.loaded.Load() && meta.FindStatusCondition(b.status.Conditions, Bound) != nil
		}
		b.say(ConsumerAllowed, true, "Allowed", "the export is for this plane")
		b.say(Bound, false, "AnotherLog", fmt.Sprintf("the export %s lies in %s, and this plane in %s: a binding is in force only within one log", b.of, other.Place, b.Place))
		return true
	}
	return false
}

// whileMoving is how often a binding is looked at that waits for a plane to move.
const whileMoving = 5 * time.Second

// standing reads the record of the binding, which can be written as long as both planes stay in this log; nil: the binding is not in force, and does
// not come into force before one of them has moved.
func (b *binding) standing(ctx context.Context, o *offer) (*standing, error) {
	s, err := readRecord(ctx, b.DB, recordsOf(o.plane.UID, b.of.name)+string(b.plane.UID))
	if err != nil {
		return nil, err
	}
	for _, p := range []Plane{o.plane, b.plane} {
		stay, err := b.Planes.Stay(ctx, p.UID)
		switch {
		case err != nil:
			return nil, err
		case stay.Leaves != "" && s.is == nil:
			b.say(Bound, false, "Moving", fmt.Sprintf("the plane %s lies in %s and is to move to %s; the binding waits until it has", p.Name, b.Place, stay.Leaves))
			b.queue.AddAfter(bindingName(b.ref), whileMoving)
			return nil, nil
		}
		s.while = append(s.while, stay.While...)
	}
	return s, nil
}

// missing names the claims that are not accepted whole.
func missing(asked, accepted []Claim) string {
	var out []string
	for _, c := range asked {
		if _, whole := granted([]Claim{c}, accepted); !whole {
			out = append(out, c.String())
		}
	}
	return strings.Join(out, ", ")
}

// record puts the record of the binding; ok is false if another binding of this plane has bound the export.
func (b *binding) record(ctx context.Context, o *offer, r *record) (ok bool, err error) {
	s, err := b.standing(ctx, o)
	if err != nil || s == nil {
		return false, err
	}
	if s.is != nil && s.is.Binding != b.Name {
		b.say(Bound, false, "Conflict", fmt.Sprintf("the binding %s has bound the export already", s.is.Binding))
		return false, nil
	}
	b.queue.Add(exportName(b.of))
	return true, s.put(ctx, b.DB, r)
}

// definitionsPath is where definitions are.
const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define makes the definitions of the export those of the plane, and returns the kinds that are served; nil: none may be, and a
// condition says why.
func (b *binding) define(ctx context.Context, o *offer) (served []GroupResource, err error) {
	served = []GroupResource{}
	var held, pending []string
	for _, d := range o.definitions {
		of := GroupResource{d.Spec.Group, d.Spec.Names.Plural}
		is, err := b.definition(ctx, b.plane, of)
		if err != nil {
			return nil, err
		}
		if is != nil && !isOf(&is.ObjectMeta, b.UID) {
			b.say(Bound, false, "Conflict", fmt.Sprintf("this plane has another definition %s already; the binding takes its place if that is deleted", d.Name))
			return nil, nil
		}
		if is != nil && is.DeletionTimestamp == nil && sameSpec(is, d) {
			if established(is) {
				served = append(served, of)
			} else {
				pending = append(pending, notEstablished(is))
			}
			continue
		}
		why, err := b.adopt(ctx, is, d, o)
		if err != nil {
			return nil, err
		}
		if why != "" {
			held = append(held, why)
		}
		if is == nil {
			pending = append(pending, fmt.Sprintf("the definition %s is not served yet", d.Name)) // its change has this looked at again
			continue
		}
		served = append(served, of)
	}
	if len(served) == 0 && len(pending) > 0 {
		b.say(Bound, false, "NotServed", strings.Join(pending, "; "))
		return nil, nil
	}
	switch {
	case len(pending) > 0:
		b.say(SchemasFit, false, "NotServed", strings.Join(pending, "; "))
	case len(held) > 0:
		b.say(SchemasFit, false, heldBack, strings.Join(held, "; "))
	case len(o.wrong) > 0:
		b.say(SchemasFit, false, "NotOffered", strings.Join(o.wrong, "; "))
	default:
		b.status.Schema = o.schema
		b.say(SchemasFit, true, "Served", "the schemas of the export are served")
	}
	return served, nil
}

func sameSpec(is, d *apiextensionsv1.CustomResourceDefinition) bool {
	for name, value := range d.Annotations {
		if is.Annotations[name] != value {
			return false
		}
	}
	return sameJSON(is.Spec, d.Spec)
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// notEstablished says why a definition is not served.
func notEstablished(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range d.Status.Conditions {
		if c.Status == apiextensionsv1.ConditionFalse && (c.Type == apiextensionsv1.NamesAccepted || c.Type == apiextensionsv1.Established) {
			return fmt.Sprintf("the definition %s is not served: %s", d.Name, c.Message)
		}
	}
	return fmt.Sprintf("the definition %s is not served yet", d.Name)
}

// adopt creates a definition, or changes the one that is there if what is stored fits; held says why it does not.
func (b *binding) adopt(ctx context.Context, is, d *apiextensionsv1.CustomResourceDefinition, o *offer) (held string, err error) {
	path, yes := definitionsPath+"/"+d.Name, true
	if is == nil {
		made := d.DeepCopy()
		made.Kind, made.APIVersion = "CustomResourceDefinition", apiextensionsv1.SchemeGroupVersion.String()
		made.Annotations[exportAnnotation] = b.of.String()
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: Group + "/" + Version, Kind: "Binding", Name: b.Name, UID: b.UID, Controller: &yes}}
		return "", b.api.Do(ctx, http.MethodPost, definitionsPath+"?fieldManager="+manager, apiclient.JSON, made, nil)
	}
	misfits, err := b.misfits(ctx, d)
	if err != nil || misfits != "" {
		return misfits, err
	}
	var now apiextensionsv1.CustomResourceDefinition
	if err := b.api.Do(ctx, http.MethodGet, path, "", nil, &now); err != nil {
		return "", err
	}
	if err := b.dropVersions(ctx, &now, d); err != nil {
		return "", err
	}
	now.Spec = d.Spec
	for name, value := range d.Annotations {
		now.Annotations[name] = value
	}
	err = b.api.Do(ctx, http.MethodPut, path+"?fieldManager="+manager, apiclient.JSON, &now, nil)
	if apierrors.IsInvalid(err) {
		return err.Error(), nil
	}
	return "", err
}

// dropVersions says that nothing is stored in versions that go away, which misfits has found.
func (b *binding) dropVersions(ctx context.Context, now, d *apiextensionsv1.CustomResourceDefinition) error {
	keep := slices.DeleteFunc(slices.Clone(now.Status.StoredVersions), func(name string) bool { return versionOf(d, name) == nil })
	if len(keep) == len(now.Status.StoredVersions) {
		return nil
	}
	if len(keep) == 0 {
		keep = []string{storageVersion(d)}
	}
	now.Status.StoredVersions = keep
	return b.api.Do(ctx, http.MethodPut, definitionsPath+"/"+d.Name+"/status?fieldManager="+manager, apiclient.JSON, now, now)
}

// rolesPath is where the roles of exports are.
const rolesPath = "/apis/rbac.authorization.k8s.io/v1/"

// allow gives the user that the export is its rights.
func (b *binding) allow(ctx context.Context, r *record) error {
	name := userPrefix + b.of.plane + ":" + b.of.name
	rules := rulesOf(r)
	hash := hashOf(rules)
	roles := GroupResource{rbacv1.GroupName, "clusterrolebindings"}
	value, err := b.stored(ctx, b.plane, roles, "clusterrolebindings/"+name)
	if err != nil || strings.Contains(string(value), rulesAnnotation) && strings.Contains(string(value), hash) {
		return err
	}
	owner := []metav1.OwnerReference{{APIVersion: Group + "/" + Version, Kind: "Binding", Name: b.Name, UID: b.UID}}
	about := metav1.ObjectMeta{Name: name, OwnerReferences: owner, Annotations: map[string]string{rulesAnnotation: hash}}
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: about, Rules: rules}
	if err := b.api.apply(ctx, rolesPath+"clusterroles/"+name, role); err != nil {
		return err
	}
	return b.api.apply(ctx, rolesPath+"clusterrolebindings/"+name, &rbacv1.ClusterRoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: about,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
}

// rulesAnnotation identifies the rules that were applied.
const rulesAnnotation = Group + "/rules"

// rulesOf are the rights that a record gives.
func rulesOf(r *record) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, of := range r.Resources {
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{of.Group}, Resources: []string{of.Resource, of.Resource + "/status", of.Resource + "/scale"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}})
	}
	for _, g := range r.Claims {
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: g.Verbs})
	}
	return out
}

// unbind removes the kinds of a binding, with their objects, then the provider's view, and lets the binding go.
func (b *binding) unbind(ctx context.Context) error {
	if !slices.Contains(b.Finalizers, finalizer) {
		return nil
	}
	left, err := b.undefine(ctx)
	if err != nil {
		return err
	}
	if left != "" {
		b.status = *b.Status.deepCopy()
		b.say(Bound, false, "Unbinding", "waiting until the objects of "+left+" are gone")
		if !sameJSON(b.status, b.Status) {
			return b.api.status(ctx, "bindings", b.Name, b.UID, b.status)
		}
		return nil // the end of the definition has this looked at again
	}
	if err := b.revoke(ctx, b.of, b.plane, b.Name); err != nil {
		return err
	}
	b.queue.Add(exportName(b.of))
	return b.api.finalizers(ctx, b.Binding, slices.DeleteFunc(slices.Clone(b.Finalizers), func(f string) bool { return f == finalizer }))
}

// undefine deletes the definitions that the binding has brought, and returns the name of one that is still there.
func (b *binding) undefine(ctx context.Context) (left string, err error) {
	var names []string
	if err := b.each(ctx, b.plane, definitionsKey, func(below string) { names = append(names, strings.TrimPrefix(below, definitionsKey)) }); err != nil {
		return "", err
	}
	for _, name := range names {
		plural, group, _ := strings.Cut(name, ".")
		d, err := b.definition(ctx, b.plane, GroupResource{group, plural})
		if err != nil {
			return "", err
		}
		if d == nil || !isOf(&d.ObjectMeta, b.UID) {
			continue
		}
		left = cmp.Or(left, name)
		if d.DeletionTimestamp == nil {
			if err := b.api.remove(ctx, definitionsPath+"/"+name, d.UID); err != nil {
				return "", err
			}
		}
	}
	return left, nil
}

// revoke removes the record of a binding.
func (e *Exports) revoke(ctx context.Context, of ref, p Plane, name string) error {
	provider, ok := e.Planes.Find(of.plane)
	if !ok {
		return nil // sweep removes the records of planes that are gone
	}
	s, err := readRecord(ctx, e.DB, recordsOf(provider.UID, of.name)+string(p.UID))
	if err != nil || s.is == nil || s.is.Binding != name {
		return err
	}
	return removeRecord(ctx, e.DB, s.key)
}

// revokeAny is revoke for who does not know the export.
func (e *Exports) revokeAny(ctx context.Context, p Plane, name string) error {
	records, err := readRecords(ctx, e.DB, recordsPrefix, 0)
	if err != nil {
		return err
	}
	for key, r := range records {
		if strings.HasSuffix(key, "/"+string(p.UID)) && r.Binding == name {
			if err := removeRecord(ctx, e.DB, recordsPrefix+key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *BindingStatus) deepCopy() *BindingStatus {
	out := *s
	out.Conditions = slices.Clone(s.Conditions)
	return &out
}
