package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// change is a write to an object that may exist: an update, a patch, an apply.
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

// outcome is the object that a change has stored, or the last state of an
// object that the change has removed.
type outcome struct {
	item    *store.Item
	obj     Object // instead of item
	created bool
}

// object returns the object of an outcome as it is stored. It may differ from
// the object that was processed (in empty lists).
func (c *call) object(o *outcome) (Object, error) {
	if o.item == nil {
		return o.obj, nil
	}
	return c.Decode(o.item)
}

// errLock is the error of a write that is based on an older revision.
var errLock = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// change carries out a change. It tries again if another writer has changed the
// object meanwhile.
//
// The first attempt is based on the view, which may be a moment behind. For
// success that is enough, since the transaction compares the revision. A
// refusal may be due to an old view, so it is decided again on the object in
// etcd.
func (c *call) change(ctx context.Context, ch *change) (*outcome, error) {
	c.asked(ctx, nil, admission.IsDryRun(ch.options.DryRun))
	k := c.key(c.name)
	i, err := c.current(ctx, k, ch.options.DryRun)
	if err != nil {
		return nil, err
	}
	for sure := false; ; {
		out, err := c.attempt(ctx, ch, i, sure)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			c.awaitSeen(ctx, ch.options.DryRun)
			return out, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, store.ErrUncertain):
			// A second attempt might apply the patch twice.
			return nil, err
		case errors.As(err, &conflict):
			i, sure = conflict.Current, true
			continue
		case sure && !errors.Is(err, store.ErrExists):
			return nil, err
		}
		latest, lerr := orNil(c.view.Latest(ctx, k))
		if lerr != nil {
			return nil, lerr
		}
		if revOf(latest) == revOf(i) && !errors.Is(err, store.ErrExists) {
			return nil, err
		}
		i, sure = latest, true
	}
}

// current returns the view's item (nil: none), on which a write is based. For a
// dry run the view must be fresh, because no transaction would detect that it
// is behind.
func (c *call) current(ctx context.Context, key string, dryRun []string) (*store.Item, error) {
	if admission.IsDryRun(dryRun) {
		if err := c.view.Fresh(ctx); err != nil {
			return nil, err
		}
	}
	return orNil(c.view.Newest(ctx, key))
}

// orNil turns "not found" into no item.
func orNil(i *store.Item, err error) (*store.Item, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return i, err
}

func revOf(i *store.Item) int64 {
	if i == nil {
		return 0
	}
	return i.Rev
}

// sameObject refuses a change that is meant for another object of the same
// name; uid may be empty.
func (c *call) sameObject(uid string, old Object) error {
	if uid != "" && uid != string(old.GetUID()) {
		return c.otherObject(uid, old)
	}
	return nil
}

func (c *call) otherObject(uid string, old Object) error {
	return apierrors.NewConflict(c.gr(), c.name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /%s/%s, ResourceVersion: 0, AdditionalErrorMsg: "+
		"Precondition failed: UID in precondition: %s, UID in object meta: %s", c.R.Prefix, c.key(c.name), uid, old.GetUID()))
}

// meant refuses a write that is meant for another object than the stored one,
// or for that object as it was before a change.
func (c *call) meant(old Object) error {
	switch {
	case c.which.OtherUID(old):
		return c.otherObject(string(c.which.UID()), old)
	case c.which.Changed(old):
		return apierrors.NewConflict(c.gr(), c.name, errLock)
	}
	return nil
}

// attempt carries out a change on item i (nil: there is none). sure says that i
// was read from etcd itself.
func (c *call) attempt(ctx context.Context, ch *change, i *store.Item, sure bool) (*outcome, error) {
	if i == nil {
		return c.attemptCreate(ctx, ch)
	}
	old, err := c.Decode(i)
	if err != nil {
		return nil, c.unreadable(i, err)
	}
	if err := c.sameObject(ch.uid, old); err != nil {
		return nil, err
	}
	if err := c.meant(old); err != nil {
		return nil, err
	}
	obj, err := ch.mutate(ctx, old, true)
	if err != nil {
		return nil, err
	}
	if err := c.checkRevision(ch, obj, i); err != nil {
		return nil, err
	}
	end := func(bool) {}
	if f := ch.rules.BeginUpdate; f != nil {
		e, err := f(ctx, obj, old, admission.IsDryRun(ch.options.DryRun))
		if err != nil {
			return nil, err
		}
		if e != nil {
			end = e
		}
	}
	out, err := c.replace(ctx, ch, i, obj, old, sure)
	end(err == nil)
	return out, err
}

// unreadable is the error of a write on an item that cannot be decoded. It has a reason if
// already its bytes could not be decrypted.
func (c *call) unreadable(i *store.Item, err error) error {
	if c.e.UnsafeDelete {
		err = cmp.Or(c.corrupt(i), err)
	}
	if i.Err != nil {
		return apierrors.NewInternalError(err)
	}
	return err
}

// checkRevision checks that the stored object has the revision that the new
// object names, if it names one.
func (c *call) checkRevision(ch *change, obj Object, i *store.Item) error {
	rev, err := parseRev(obj.GetResourceVersion())
	switch {
	case err != nil:
		_, err = strconv.ParseUint(obj.GetResourceVersion(), 10, 63)
		return err
	case rev == i.Rev:
	case rev == 0 && !ch.rules.NeedsResourceVersion:
		obj.SetResourceVersion(formatRev(i.Rev))
	case rev == 0:
		return apierrors.NewInvalid(schema.GroupKind{Group: c.GVR.Group, Kind: c.GVR.Resource}, c.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), rev, "must be specified for an update")})
	default:
		return apierrors.NewConflict(c.gr(), c.name, errLock)
	}
	return nil
}

// replace checks the new object against the old and stores it.
func (c *call) replace(ctx context.Context, ch *change, i *store.Item, obj, old Object, sure bool) (*outcome, error) {
	if err := c.checkUpdate(ctx, ch.rules, obj, old); err != nil {
		return nil, err
	}
	c.e.keepTimes(obj, old)
	dryRun := admission.IsDryRun(ch.options.DryRun)
	reservation, err := c.validating(ctx, ch, obj, old, dryRun)
	if err != nil {
		return nil, err
	}
	if done(obj, old) && !(c.R.Rules.Held != nil && c.R.Rules.Held(obj)) {
		return c.finish(ctx, i, obj, dryRun)
	}
	value, err := c.toStorage(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", c.R.Plural, i.Key, err)
	}
	if bytes.Equal(value, i.Value()) && !i.Stale {
		return c.unchanged(ctx, i, sure)
	}
	if dryRun {
		return &outcome{item: store.NewItem(i.Key, i.Rev, value)}, nil
	}
	update := func(g ...store.Guard) (*store.Item, error) { return c.view.Update(ctx, i, c.written(obj, value), g...) }
	stored, err := reserved(ctx, reservation, update)
	if errors.Is(err, store.ErrTooLarge) && obj.GetManagedFields() != nil && !ch.create {
		obj.SetManagedFields(nil)
		if value, err = c.toStorage(obj); err == nil {
			stored, err = reserved(ctx, reservation, update)
		}
	}
	if err != nil {
		return nil, err
	}
	c.told(ctx, old, obj, stored, nil)
	return &outcome{item: stored}, nil
}

// validating asks admission about an update, and returns the reservation that
// plugins have made.
func (c *call) validating(ctx context.Context, ch *change, obj, old Object, dryRun bool) (*admission.Reservation, error) {
	if ch.view == nil {
		a := c.attributes(ctx, admission.Update, obj, old, ch.options, dryRun)
		err := c.e.Admit.Validate(ctx, a)
		return a.Reserved, err
	}
	kind, seen, err := ch.view(obj)
	if err != nil {
		return nil, err
	}
	_, was, err := ch.view(old)
	if err != nil {
		return nil, err
	}
	a := c.attributes(ctx, admission.Update, seen, was, ch.options, dryRun)
	a.Kind = kind
	err = c.e.Admit.Validate(ctx, a)
	return a.Reserved, err
}

// renewals is how often a write may renew its reservation. It is void if the
// usage was counted anew between the reservation and the write.
const renewals = 30

// reserved calls write with the guards of a reservation (nil: none). If the
// reservation is void by then, it is renewed.
func reserved(ctx context.Context, r *admission.Reservation, write func(...store.Guard) (*store.Item, error)) (*store.Item, error) {
	if r == nil {
		return write()
	}
	for try := 0; ; try++ {
		i, err := write(store.Guard{Mark: r.Mark, Rev: r.Rev})
		if !errors.Is(err, store.ErrVoid) || try == renewals {
			return i, err
		}
		if err := r.Renew(ctx); err != nil {
			return nil, err
		}
	}
}

// awaitSeen blocks until this server has observed its own write to a resource that configures it. The write is already
// committed, so a timeout here is not an error.
func (c *call) awaitSeen(ctx context.Context, dryRun []string) {
	if c.R.AwaitSeen && !admission.IsDryRun(dryRun) {
		_ = c.view.Fresh(ctx)
	}
}

// unchanged is the outcome of a change that changes nothing. It first makes
// sure that the item is the newest.
func (c *call) unchanged(ctx context.Context, i *store.Item, sure bool) (*outcome, error) {
	if !sure {
		latest, err := orNil(c.view.Latest(ctx, i.Key))
		if err != nil {
			return nil, err
		}
		if revOf(latest) != i.Rev || latest.Stale {
			return nil, &store.ConflictError{Current: latest}
		}
	}
	return &outcome{item: i}, nil
}

// checkUpdate applies the rules for an update to the new object.
func (c *call) checkUpdate(ctx context.Context, r *Rules, obj, old Object) error {
	if err := c.fitNamespace(obj); err != nil {
		return err
	}
	obj.SetGeneration(old.GetGeneration())
	if r.PrepareUpdate != nil {
		r.PrepareUpdate(ctx, obj, old)
	}
	carryMeta(obj, old)
	errs := c.checkMetaUpdate(obj, old)
	if r.ValidateUpdate != nil {
		errs = append(errs, r.ValidateUpdate(ctx, obj, old)...)
	}
	if len(errs) > 0 {
		return c.invalid(obj, errs)
	}
	if r.Warn != nil {
		for _, w := range r.Warn(ctx, obj, old) {
			request.AddWarning(ctx, w)
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

// finish removes an object after an update that is done. The answer is the
// object of the update.
func (c *call) finish(ctx context.Context, i *store.Item, obj Object, dryRun bool) (*outcome, error) {
	if !dryRun {
		stored, err := c.view.Delete(ctx, i)
		if err != nil {
			return nil, err
		}
		c.told(ctx, obj, nil, stored, nil)
	}
	if f := c.R.Rules.Deleted; f != nil {
		f(ctx, obj, dryRun)
	}
	return &outcome{obj: obj}, nil
}

// attemptCreate carries out a change to an object that does not exist.
func (c *call) attemptCreate(ctx context.Context, ch *change) (*outcome, error) {
	if c.sub != nil || !ch.create && !c.R.Rules.CreateOnUpdate || c.which.Existing() {
		return nil, store.ErrNotFound
	}
	live := c.hub.New()
	live.GetObjectKind().SetGroupVersionKind(c.hub.WithKind(c.R.Kind))
	obj, err := ch.mutate(ctx, live, false)
	if err != nil {
		return nil, err
	}
	if uid := obj.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(c.gr(), c.name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := c.mayCreate(ctx); err != nil {
		return nil, err
	}
	options := &metav1.CreateOptions{DryRun: ch.options.DryRun, FieldManager: ch.options.FieldManager, FieldValidation: ch.options.FieldValidation}
	a := c.attributes(ctx, admission.Create, obj, nil, options, admission.IsDryRun(options.DryRun))
	obj.SetResourceVersion("")
	i, err := c.store(ctx, obj, a)
	if err != nil {
		return nil, err
	}
	c.told(ctx, nil, obj, i, options.DryRun)
	return &outcome{item: i, created: true}, nil
}

// mayCreate checks whether the user of a request with another verb may also
// create.
func (c *call) mayCreate(ctx context.Context) error {
	if c.info == nil {
		return nil // the server itself
	}
	i := *c.info
	i.Verb = "create"
	return c.e.Authorize(ctx, &i)
}

// admit runs mutating admission on the object of a change.
func (c *call) admit(ctx context.Context, obj, old Object, exists bool, options *metav1.UpdateOptions) (Object, error) {
	dryRun := admission.IsDryRun(options.DryRun)
	var a *admission.Attributes
	if exists {
		a = c.attributes(ctx, admission.Update, obj, old, options, dryRun)
	} else {
		co := &metav1.CreateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation}
		a = c.attributes(ctx, admission.Create, obj, nil, co, dryRun)
	}
	return c.mutating(ctx, a, obj)
}

// mutating runs the mutating plugins and returns the object as they leave it.
func (c *call) mutating(ctx context.Context, a *admission.Attributes, obj Object) (Object, error) {
	if err := c.e.Admit.Admit(ctx, a); err != nil {
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
