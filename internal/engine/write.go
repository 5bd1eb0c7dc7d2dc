package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// write is what one writer wants done to one object. It knows contexts and objects, and nothing of HTTP: a request is one source
// of writes, the server's own bookkeeping (local.go) another. A write makes a decision by what is stored, which perform carries out.
type write struct {
	*Endpoint
	sub *Subresource // nil: the object itself
	// namespace and name of the object; the name of a new one may come later.
	namespace, name string
	// which is the object that a write from inside of the server is meant for.
	which request.Which
	// info is what the writer was authorized for.
	info *request.Info
	// part says that the server itself writes, as part of another write, which was authorized and admitted: a binding changes
	// its pod, an eviction deletes it.
	part bool
	// agent is what the writer calls itself.
	agent string
	// anew says that the object must not exist.
	anew bool
	// dryRun decides and does not carry out.
	dryRun bool
	// collection says that this is the deletion of one of a collection.
	collection bool
	span       span.Span // of the verb
}

// key returns the key in the view of an object in the write's namespace.
func (w *write) key(name string) string { return key(w.namespace, name) }

// rules returns the rules of the object or subresource that is written.
func (w *write) rules() *Rules {
	if w.sub != nil && w.sub.Rules != nil {
		return w.sub.Rules
	}
	return &w.R.Rules
}

// isNamespaces says that the resource is namespaces. A namespace counts as
// being inside itself.
func (w *write) isNamespaces() bool { return w.R.Plural == "namespaces" && w.GVR.Group == "" }

// errLock is the error of a write that is based on an older revision.
var errLock = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// sameObject refuses a change that is meant for another object of the same
// name; uid may be empty.
func (w *write) sameObject(uid string, old Object) error {
	if uid != "" && uid != string(old.GetUID()) {
		return w.otherObject(uid, old)
	}
	return nil
}

func (w *write) otherObject(uid string, old Object) error {
	return w.notMeant("UID", uid, string(old.GetUID()))
}

// notMeant is the error of a write that names what the stored object must have, but has not.
func (w *write) notMeant(what, asked, has string) error {
	key := w.view.Shown(w.key(w.name))
	if w.dryRun { // upstream's storage for these does not know the prefix of all keys
		key = "/" + w.view.Below(w.key(w.name))
	}
	return apierrors.NewConflict(w.gr(), w.name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"Precondition failed: %[2]s in precondition: %[3]s, %[2]s in object meta: %[4]s", key, what, asked, has))
}

// meant refuses a write that is meant for another object than the stored one,
// or for that object as it was before a change.
func (w *write) meant(old Object) error {
	switch {
	case w.which.OtherUID(old):
		return w.otherObject(string(w.which.UID()), old)
	case w.which.Changed(old) && !w.which.Existing():
		return w.notMeant("ResourceVersion", w.which.Revision(), old.GetResourceVersion())
	case w.which.Changed(old):
		return apierrors.NewConflict(w.gr(), w.name, errLock)
	}
	return nil
}

// unreadable is the error of a write on an item that cannot be decoded. It has a reason if
// already its bytes could not be decrypted.
func (w *write) unreadable(ctx context.Context, i *store.Item, err error) error {
	if w.e.UnsafeDelete {
		err = cmp.Or(w.corrupt(ctx, i), err)
	}
	if i.Err != nil {
		return apierrors.NewInternalError(err)
	}
	return err
}

// mayCreate checks whether the user of a request with another verb may also
// create.
func (w *write) mayCreate(ctx context.Context) error {
	if w.part {
		return nil
	}
	i := *w.info
	i.Verb = "create"
	return w.e.Authorize(ctx, &i)
}

// attributes describes the write to admission. It sets the type of the options,
// because webhooks get them as objects.
func (w *write) attributes(ctx context.Context, op admission.Operation, obj, old Object, options runtime.Object) *admission.Attributes {
	a := &admission.Attributes{
		Operation: op, Kind: w.GVK, Resource: w.GVR, Namespace: w.namespace, Name: w.name,
		Options: options, DryRun: w.dryRun, User: request.UserFrom(ctx), Versions: versions{w.Endpoint}, Collection: w.collection,
	}
	switch o := options.(type) {
	case *metav1.CreateOptions:
		o.TypeMeta = createOptionsMeta
	case *metav1.UpdateOptions:
		o.TypeMeta = updateOptionsMeta
	case *metav1.DeleteOptions:
		o.TypeMeta = deleteOptionsMeta
	}
	if w.sub != nil {
		a.Subresource = w.sub.Name
	}
	if w.isNamespaces() {
		a.Namespace = w.name
	}
	if obj != nil {
		a.Object = obj
	}
	if old != nil {
		a.OldObject = old
	}
	return a
}

var (
	createOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}
	updateOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}
	deleteOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}
)

// createOptions are the options of an update that turns out to be a creation.
func createOptions(o *metav1.UpdateOptions) *metav1.CreateOptions {
	return &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// mutating runs the mutating plugins and returns the object as they leave it.
func (w *write) mutating(ctx context.Context, a *admission.Attributes, obj Object) (Object, error) {
	if err := w.e.Admit.Admit(ctx, a); err != nil {
		return nil, err
	}
	out, ok := a.Object.(Object)
	if !ok {
		return nil, admission.WrongType(a)
	}
	if out != obj {
		keepManagers(ctx, out, obj)
	}
	dedupOwners(ctx, out, true)
	return out, nil
}

// keepManagers restores the managers of an object if a webhook or policy has
// made them invalid.
func keepManagers(ctx context.Context, made, of Object) {
	if err := managedfields.ValidateManagedFields(made.GetManagedFields()); err != nil {
		made.SetManagedFields(of.GetManagedFields())
		request.AddWarning(ctx, fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; "+
			"this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
}
