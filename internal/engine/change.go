package engine

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// change is what is to become of an object that may exist: by an update, a patch, an apply.
type change struct {
	rules *Rules
	// mutate makes the new object out of the stored one, which it must not
	// change. old is an empty object if nothing is stored (exists is false) and
	// the change may create.
	mutate func(ctx context.Context, old Object, exists bool) (Object, error)
	// create lets the change create a missing object.
	create bool
	// uid is the UID that the object must have; "": any.
	uid     string
	options *metav1.UpdateOptions
	// view makes the object that admission sees, if that is not the object
	// itself but its scale. Optional.
	view func(obj Object) (kind schema.GroupVersionKind, seen Object, err error)
}

// changeObject carries out a change.
func (w *write) changeObject(ctx context.Context, ch *change) (*outcome, error) {
	w.dryRun = admission.IsDryRun(ch.options.DryRun)
	w.recordTarget(ctx, nil)
	found, err := w.current(ctx)
	if err != nil {
		return nil, err
	}
	return w.perform(ctx, found, false, func(ctx context.Context, found *store.Item) (*decision, error) {
		if found == nil {
			return w.decideMissing(ctx, ch)
		}
		return w.decideChange(ctx, ch, found)
	})
}

// decideMissing decides on a change to an object that does not exist.
func (w *write) decideMissing(ctx context.Context, ch *change) (*decision, error) {
	if w.sub != nil || !ch.create && !w.R.Rules.CreateOnUpdate || w.which.Existing() {
		return nil, store.ErrNotFound
	}
	none := w.none()
	if err := w.sameObject(ch.uid, none); err != nil {
		return nil, err
	}
	obj, err := ch.mutate(ctx, none, false)
	if err != nil {
		return nil, err
	}
	if err := w.mayCreate(ctx); err != nil {
		return nil, err
	}
	a := w.attributes(ctx, admission.Create, obj, nil, createOptions(ch.options))
	obj.SetResourceVersion("")
	return w.decideCreate(ctx, obj, a)
}

// noUID refuses to make an object that its writer has seen before.
func (w *write) noUID(obj Object) error {
	if uid := obj.GetUID(); uid != "" {
		return apierrors.NewConflict(w.gr(), w.name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	return nil
}

// decideChange decides on a change to what was found.
func (w *write) decideChange(ctx context.Context, ch *change, found *store.Item) (*decision, error) {
	old, err := w.Decode(ctx, found)
	if err != nil {
		return nil, w.unreadable(ctx, found, err)
	}
	if err := w.sameObject(ch.uid, old); err != nil {
		return nil, err
	}
	if err := w.meant(old); err != nil {
		return nil, err
	}
	obj, err := ch.mutate(ctx, old, true)
	if err != nil {
		return nil, err
	}
	if err := w.checkRevision(ch, obj, found); err != nil {
		return nil, err
	}
	var end func(stored bool)
	if begin := ch.rules.BeginUpdate; begin != nil {
		if end, err = begin(ctx, obj, old, w.dryRun); err != nil {
			return nil, err
		}
	}
	d, err := w.checkedChange(ctx, ch, found, obj, old)
	return ending(end, d, err)
}

// checkRevision checks that the stored object has the revision that the new
// object names, if it names one.
func (w *write) checkRevision(ch *change, obj Object, found *store.Item) error {
	rev, err := parseRev(obj.GetResourceVersion())
	switch {
	case err != nil:
		_, err = strconv.ParseUint(obj.GetResourceVersion(), 10, 63)
		return err
	case rev == found.Rev:
	case rev == 0 && (w.V.Lenient || !ch.rules.NeedsResourceVersion):
		obj.SetResourceVersion(formatRev(found.Rev))
	case rev == 0:
		return apierrors.NewInvalid(schema.GroupKind{Group: w.GVR.Group, Kind: w.GVR.Resource}, w.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), rev, "must be specified for an update")})
	default:
		return apierrors.NewConflict(w.gr(), w.name, errLock)
	}
	return nil
}

// checkedChange checks the new object against the old.
func (w *write) checkedChange(ctx context.Context, ch *change, found *store.Item, obj, old Object) (*decision, error) {
	if err := w.checkUpdate(ctx, ch.rules, obj, old); err != nil {
		return nil, err
	}
	w.e.keepTimes(obj, old)
	reserved, err := w.validating(ctx, ch, obj, old)
	if err != nil {
		return nil, err
	}
	if done(obj, old) && !(w.R.Rules.Held != nil && w.R.Rules.Held(obj)) {
		return &decision{found: found, act: actRemove, old: obj, obj: obj}, nil
	}
	d, err := w.putting(ctx, found, obj, old)
	if err == nil {
		d.reserved, d.slims = reserved, !ch.create
	}
	return d, err
}

// validating asks admission about an update, and returns the reservation that
// plugins have made.
func (w *write) validating(ctx context.Context, ch *change, obj, old Object) (*admission.Reservation, error) {
	kind := w.GVK
	if ch.view != nil {
		var err error
		if kind, obj, err = ch.view(obj); err != nil {
			return nil, err
		}
		if _, old, err = ch.view(old); err != nil {
			return nil, err
		}
	}
	a := w.attributes(ctx, admission.Update, obj, old, ch.options)
	a.Kind = kind
	err := w.e.Admit.Validate(ctx, a)
	return a.Reserved, err
}

// checkUpdate applies the rules for an update to the new object.
func (w *write) checkUpdate(ctx context.Context, r *Rules, obj, old Object) error {
	if err := w.fitNamespace(obj); err != nil {
		return err
	}
	obj.SetGeneration(old.GetGeneration())
	if r.PrepareUpdate != nil {
		r.PrepareUpdate(ctx, obj, old)
	}
	carryMeta(obj, old)
	errs := w.checkMetaUpdate(obj, old)
	if r.ValidateUpdate != nil {
		errs = append(errs, r.ValidateUpdate(ctx, obj, old)...)
	}
	if len(errs) > 0 {
		return w.invalid(obj, errs)
	}
	if r.Warn != nil {
		for _, text := range r.Warn(ctx, obj, old) {
			request.AddWarning(ctx, text)
		}
	}
	return nil
}

// done says that the update has removed the last finalizer of an object whose
// deletion is pending: the object is to be removed now.
func done(obj, old Object) bool {
	if len(obj.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// admit runs mutating admission on the object of a change.
func (w *write) admit(ctx context.Context, obj, old Object, exists bool, options *metav1.UpdateOptions) (Object, error) {
	if exists {
		return w.mutating(ctx, w.attributes(ctx, admission.Update, obj, old, options), obj)
	}
	return w.mutating(ctx, w.attributes(ctx, admission.Create, obj, nil, createOptions(options)), obj)
}
