// Package admission is the step between authorization and storage: plugins that
// change a write (Mutator) or refuse it (Validator), in a fixed order.
package admission

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Operation is the operation of a write.
type Operation string

// The operations, spelled as in webhook rules.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Attributes is one write under admission.
type Attributes struct {
	Operation   Operation
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string // empty if the server will generate it
	// Collection says that the object is deleted with its collection. Webhooks and policies are then told no name: that is
	// what they are told by kube-apiserver.
	Collection bool
	// Object is the object to be stored (nil for a deletion), OldObject the
	// one stored now (nil for a creation).
	Object    runtime.Object
	OldObject runtime.Object
	// Options of the operation: *metav1.CreateOptions, UpdateOptions, DeleteOptions.
	Options runtime.Object
	DryRun  bool
	User    user.Info
	// Versions gives the versions in which the resource is served. Nil: only
	// one.
	Versions Versions
	// Reserved is the reservation that validating plugins have made for the
	// write. Nil: none.
	Reserved *Reservation
	rounds
}

// Reservation is something taken for a write before it is stored, such as a
// charge to a quota. It is void once its mark is set after Rev: usage is then
// counted anew, and the count may miss the write. With a void reservation the
// write must not be stored until the reservation is renewed.
type Reservation struct {
	Mark string
	Rev  int64
	// Renew makes the reservation again, and updates Rev.
	Renew func(ctx context.Context) error
}

// rounds is the state that mutating plugins keep for one write between their
// first round and the second, if there is one.
type rounds struct {
	wanted, second bool
	notes          map[string]any
}

// RunAgain makes all mutating plugins run a second round, because a webhook or
// policy has changed the object after some of them ran. There is no third
// round.
func (r *rounds) RunAgain() { r.wanted = true }

// Again says that this is the second round.
func (r *rounds) Again() bool { return r.second }

// Note returns the value set under a name, or nil.
func (r *rounds) Note(name string) any { return r.notes[name] }

// SetNote keeps a value for the second round.
func (r *rounds) SetNote(name string, v any) {
	if r.notes == nil {
		r.notes = map[string]any{}
	}
	r.notes[name] = v
}

// Is says whether the attributes are of a group's resource (any version),
// itself or a subresource of it.
func (a *Attributes) Is(group, resource, subresource string) bool {
	return a.Resource.Group == group && a.Resource.Resource == resource && a.Subresource == subresource
}

// Mutator changes objects before they are stored: in place, or by setting
// another object.
type Mutator interface {
	Admit(ctx context.Context, a *Attributes) error
}

// Validator refuses writes.
type Validator interface {
	Validate(ctx context.Context, a *Attributes) error
}

// Func is a Mutator or Validator that is a func.
type Func func(ctx context.Context, a *Attributes) error

// Admit calls f.
func (f Func) Admit(ctx context.Context, a *Attributes) error { return f(ctx, a) }

// Validate calls f.
func (f Func) Validate(ctx context.Context, a *Attributes) error { return f(ctx, a) }

// Plugin is a named plugin of the chain; it is a Mutator, a Validator or both.
type Plugin struct {
	Name string
	// On are the operations, and Of the resources with all their subresources,
	// that it handles; an empty list means all.
	On        []Operation
	Of        []schema.GroupResource
	Mutator   Mutator
	Validator Validator
}

// handles says that the plugin handles a write.
func (p *Plugin) handles(a *Attributes) bool {
	return (len(p.On) == 0 || slices.Contains(p.On, a.Operation)) &&
		(len(p.Of) == 0 || slices.Contains(p.Of, a.Resource.GroupResource()))
}

// Chain is the plugins in their order.
type Chain []Plugin

// Admit runs all mutators, stopping at the first error. It runs them a second
// time if one of them asks for it.
func (c Chain) Admit(ctx context.Context, a *Attributes) error {
	if err := c.admit(ctx, a); err != nil || !a.wanted {
		return err
	}
	a.second = true
	return c.admit(ctx, a)
}

func (c Chain) admit(ctx context.Context, a *Attributes) error {
	for i := range c {
		p := &c[i]
		if p.Mutator != nil && p.handles(a) {
			if err := p.Mutator.Admit(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs all validators, stopping at the first error.
func (c Chain) Validate(ctx context.Context, a *Attributes) error {
	for i := range c {
		p := &c[i]
		if p.Validator != nil && p.handles(a) {
			if err := p.Validator.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsDryRun says whether options ask for a dry run.
func IsDryRun(dryRun []string) bool { return len(dryRun) > 0 && dryRun[0] == metav1.DryRunAll }
