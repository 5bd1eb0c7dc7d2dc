package engine

import (
	"bytes"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/store"
)

// decision is what a write comes to, by the object that was found under its name: what must still be so, what is then done, and
// what follows. It has no effect until it is carried out, and on a dry run it never is.
type decision struct {
	// found is the item that was decided on; it must still be what is stored. Nil: there was none, and there must be none.
	found *store.Item
	act   act
	// key and put are what is stored by actPut.
	key string
	put store.Write
	// reserved are what plugins have set aside for the write.
	reserved *admission.Reservation
	// old and obj are the object before and after: old is nil if it is new, obj is its last state if it is removed.
	old, obj Object
	// slims lets obj be stored without its managers if it is too large with them.
	slims bool
	// generated says that the name was made by the server: if it is taken, another one is made.
	generated bool
	// ended is told whether the decision was carried out. Optional.
	ended func(stored bool)
}

// act is what a decision does.
type act int

const (
	actKeep   act = iota // nothing changes
	actPut               // an object is stored
	actRemove            // it is removed
)

// outcome is what a write has come to.
type outcome struct {
	// item is what is stored, or would be if it were no dry run; nil if the object was removed.
	item *store.Item
	// obj is the object as it was decided on. What is stored may differ from it, in empty lists.
	obj     Object
	created bool
	rev     int64 // of the removal; 0 of a dry run
}

// decide makes the decision by what is stored: an item, or nil if there is none.
type decide func(ctx context.Context, found *store.Item) (*decision, error)

// generateTries is how often another name is generated when one is taken.
const generateTries = 7

// perform decides and carries out. It decides again if another writer has changed the object meanwhile.
//
// The first decision is based on what a view has, which may be a moment behind; sure says that found was read from etcd. For
// success a view is enough, since the transaction compares the revision. A refusal may be due to an old view, so it is decided
// again on the object in etcd.
func (w *write) perform(ctx context.Context, found *store.Item, sure bool, decide decide) (*outcome, error) {
	for try := 0; ; try++ {
		var stored *store.Item
		d, err := decide(ctx, found)
		if err == nil {
			stored, err = w.carryOut(ctx, d, sure)
			if d.ended != nil {
				d.ended(err == nil)
			}
		}
		var conflict *store.ConflictError
		switch {
		case err == nil:
			w.awaitSeen(ctx)
			return w.follow(ctx, d, stored), nil
		case w.anew && d != nil && d.generated && errors.Is(err, store.ErrExists) && try < generateTries:
			continue
		case w.anew:
			return nil, w.notCreated(ctx, d, err)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, store.ErrUncertain):
			// A second attempt might apply a patch twice, or delete a new object of the same name.
			return nil, err
		case errors.As(err, &conflict):
			found, sure = conflict.Current, true
			continue
		case sure && !errors.Is(err, store.ErrExists):
			return nil, err
		case d != nil && d.key != "" && d.key != w.key(w.name):
			return nil, w.notCreated(ctx, d, err) // admission has given the object another name: each try would meet the same
		}
		latest, lerr := orNil(w.view.Latest(ctx, w.key(w.name)))
		if lerr != nil {
			return nil, lerr
		}
		if revOf(latest) == revOf(found) && !errors.Is(err, store.ErrExists) {
			return nil, err
		}
		found, sure = latest, true
	}
}

// carryOut does what was decided if what was found is still stored, in one transaction. It returns the item that is stored then;
// of a removal, the item at the revision of its deletion. A dry run does nothing, and returns what would be stored.
func (w *write) carryOut(ctx context.Context, d *decision, sure bool) (*store.Item, error) {
	switch {
	case d.act == actKeep:
		return d.found, w.newest(ctx, d.found, sure)
	case w.dryRun:
		return w.shown(ctx, d)
	case d.act == actRemove:
		return w.view.Delete(ctx, d.found)
	}
	stored, err := w.store(ctx, d)
	if errors.Is(err, store.ErrTooLarge) && d.slims && d.obj.GetManagedFields() != nil {
		// The managers can be larger than the object.
		d.obj.SetManagedFields(nil)
		if d.put, err = w.stored(ctx, d.obj); err == nil {
			stored, err = w.store(ctx, d)
		}
	}
	return stored, err
}

// renewals is how often a write may renew its reservation. It is void if the
// usage was counted anew between the reservation and the write.
const renewals = 30

// store puts what was decided, under the guard of its reservation. If the reservation is void by then, it is renewed.
func (w *write) store(ctx context.Context, d *decision) (i *store.Item, err error) {
	var guards []store.Guard
	for try := 0; ; try++ {
		if r := d.reserved; r != nil {
			guards = append(guards[:0], store.Guard{Mark: r.Mark, Rev: r.Rev})
		}
		if d.found == nil {
			i, err = w.view.Create(ctx, d.key, d.put, guards...)
		} else {
			i, err = w.view.Update(ctx, d.found, d.put, guards...)
		}
		if d.reserved == nil || !errors.Is(err, store.ErrVoid) || try == renewals {
			return i, err
		}
		if err := d.reserved.Renew(ctx); err != nil {
			return nil, err
		}
	}
}

// shown is what would be stored.
func (w *write) shown(ctx context.Context, d *decision) (*store.Item, error) {
	if d.act == actRemove {
		return nil, nil
	}
	if d.found != nil {
		return store.NewItem(d.found.Key, d.found.Rev, d.put.Value), nil
	}
	// No transaction says that the name is taken.
	if err := w.view.Fresh(ctx); err != nil {
		return nil, err
	}
	if _, err := w.view.Get(ctx, d.key); err == nil {
		return nil, store.ErrExists
	}
	return store.NewItem(d.key, 0, d.put.Value), nil
}

// newest makes sure that an item, which a write leaves as it is, is the newest.
func (w *write) newest(ctx context.Context, i *store.Item, sure bool) error {
	if sure {
		return nil
	}
	latest, err := orNil(w.view.Latest(ctx, i.Key))
	if err != nil {
		return err
	}
	if revOf(latest) != i.Rev || latest.Stale {
		return &store.ConflictError{Current: latest}
	}
	return nil
}

// follow does what follows a decision that was carried out: it is recorded, and what belonged to an object that is gone is released.
func (w *write) follow(ctx context.Context, d *decision, stored *store.Item) *outcome {
	if d.act == actRemove {
		w.author(ctx, revOf(stored))
		w.recordChange(ctx, d.old, nil, stored)
		if f := w.R.Rules.Deleted; f != nil && d.obj != nil {
			f(ctx, d.obj, w.dryRun)
		}
		return &outcome{obj: d.obj, rev: revOf(stored)}
	}
	if d.act == actPut && !w.dryRun {
		w.author(ctx, revOf(stored))
		w.recordChange(ctx, d.old, d.obj, stored)
		d.obj.SetResourceVersion(formatRev(stored.Rev))
	}
	return &outcome{item: stored, obj: d.obj, created: d.found == nil}
}

// notCreated is why a new object was not stored.
func (w *write) notCreated(ctx context.Context, d *decision, err error) error {
	if d == nil || !errors.Is(err, store.ErrExists) {
		return err
	}
	exists := apierrors.NewAlreadyExists(w.gr(), d.obj.GetName())
	if d.obj.GetGenerateName() != "" { // also if the client has named the object besides
		exists = apierrors.NewGenerateNameConflict(w.gr(), d.obj.GetName(), 1)
	}
	// Clients try again if what has the name is being deleted. The view may be behind.
	if i, gerr := w.view.Latest(ctx, d.key); gerr == nil {
		if old, derr := w.Decode(ctx, i); derr == nil && old.GetDeletionTimestamp() != nil {
			exists.ErrStatus.Message = "object is being deleted: " + exists.ErrStatus.Message
		}
	}
	return exists
}

// awaitSeen blocks until this server has observed its own write to a resource that configures it. The write is already
// committed, so a timeout here is not an error.
func (w *write) awaitSeen(ctx context.Context) {
	if w.R.AwaitSeen && !w.dryRun {
		_ = w.view.Fresh(ctx)
	}
}

// current returns the view's item (nil: none), on which a write is based. For a
// dry run the view must be fresh, because no transaction would detect that it
// is behind.
func (w *write) current(ctx context.Context) (*store.Item, error) {
	if w.dryRun {
		if err := w.view.Fresh(ctx); err != nil {
			return nil, err
		}
	}
	return orNil(w.view.Newest(ctx, w.key(w.name)))
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

// putting decides to store obj. It changes nothing if that is what is stored already.
func (w *write) putting(ctx context.Context, found *store.Item, obj, old Object) (*decision, error) {
	d := &decision{found: found, act: actPut, old: old, obj: obj}
	if found == nil {
		d.key = key(obj.GetNamespace(), obj.GetName())
	} else {
		d.key = found.Key
	}
	var err error
	if d.put.Value, err = w.toStorage(ctx, obj); err != nil {
		return nil, err // clients are told it
	}
	if found != nil && !found.Stale && bytes.Equal(d.put.Value, found.Value()) {
		d.act = actKeep
		return d, nil
	}
	if !w.dryRun {
		d.put = w.completed(obj, d.put.Value)
	}
	return d, nil
}

// stored is what is stored of an object.
func (w *write) stored(ctx context.Context, obj Object) (store.Write, error) {
	value, err := w.toStorage(ctx, obj)
	if err != nil {
		return store.Write{}, err
	}
	return w.completed(obj, value), nil
}

// completed is what is stored of obj, whose encoding is value. Setting the defaults
// of obj once more tells whether a reader has to: a writer may have emptied what
// has a default. Nobody asks for kinds that are decoded for each answer.
func (w *write) completed(obj Object, value []byte) store.Write {
	out := store.Write{Value: value}
	if w.R.TTL != nil {
		out.TTL = w.R.TTL(obj)
	}
	if w.R.Codec != nil || w.R.decodedAlways() {
		return out
	}
	if w.hub.Default == nil {
		out.Complete = true
		return out
	}
	w.hub.Default(obj)
	room := gatherBuffers.Get().(*[]byte)
	defer gatherBuffers.Put(room)
	again, err := w.typedToStorage((*room)[:0], obj)
	out.Complete = err == nil && bytes.Equal(again, value)
	return out
}
