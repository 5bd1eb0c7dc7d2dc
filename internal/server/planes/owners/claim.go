package owners

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Claim makes this server the owner of a plane, unless another that runs is: it returns that one then, and otherwise the fence for what
// the plane writes.
func (o *Owners) Claim(ctx context.Context, plane types.UID) (fence int64, elsewhere *Server, err error) {
	key := ownersPrefix + string(plane)
	for ctx.Err() == nil {
		o.mu.RLock()
		r := o.planes[plane]
		owner := o.servers[r.server]
		o.mu.RUnlock()
		switch {
		case r.server == deleted:
			return 0, nil, errDeleted
		case owner == o.self:
			return r.rev, nil, nil
		case owner != nil:
			return 0, owner.Server, nil
		}
		t := kv.Txn{If: []kv.Condition{{Key: key, N: r.rev}}, Then: []kv.Op{{Key: key, Value: []byte(o.self.id())}}, Else: []string{key}}
		if r.server != "" { // which is gone as far as this server knows
			t.If = append(t.If, kv.Condition{Key: serversPrefix + r.server})
			t.Else = append(t.Else, serversPrefix+r.server)
		}
		done, err := o.DB.Commit(ctx, t)
		if err != nil {
			return 0, nil, err
		}
		if done.Held {
			o.own(plane, record{server: o.self.id(), rev: done.Rev, seen: done.Rev})
			return done.Rev, nil, nil
		}
		if err := o.corrected(ctx, t.Else, &done); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, context.Cause(ctx)
}

// own takes up what this server itself has written of a plane.
func (o *Owners) own(plane types.UID, now record) {
	o.mu.Lock()
	var c *Change
	if o.planes[plane].seen < now.seen {
		c = o.take(plane, now)
	}
	o.mu.Unlock()
	o.tell(c)
}

// corrected takes up what the keys are that a transaction found to be otherwise than this server knew, and who the owner is that it names.
func (o *Owners) corrected(ctx context.Context, keys []string, done *kv.Committed) error {
	for n, key := range keys {
		k := done.Else[n]
		if plane, ok := strings.CutPrefix(key, ownersPrefix); ok && k == nil {
			o.own(types.UID(plane), record{seen: done.Rev}) // the watch may still tell what was before
			continue
		}
		if k == nil {
			o.learn(&kv.Event{KeyValue: kv.KeyValue{Key: []byte(key), ModRevision: done.Rev}, Deleted: true})
			continue
		}
		o.learn(&kv.Event{KeyValue: *k})
		if !strings.HasPrefix(key, ownersPrefix) || len(k.Value) == 0 || string(k.Value) == deleted {
			continue
		}
		if _, err := o.DB.Range(ctx, kv.Range{Key: serversPrefix + string(k.Value)}, func(k kv.KeyValue) bool {
			o.learn(&kv.Event{KeyValue: k})
			return true
		}); err != nil {
			return err
		}
	}
	return nil
}

// Then says what becomes of a plane that its owner gives up.
type Then struct {
	value  string
	delete bool
}

// Asleep: nobody has it until it is used.
func Asleep() Then { return Then{delete: true} }

// Wanted: another server is to take it.
func Wanted() Then { return Then{} }

// Passed: a server has it from now on.
func Passed(to *Server) Then { return Then{value: to.id()} }

// Release gives up a plane, of which this server is the owner by a fence. That it is not any more is no error.
func (o *Owners) Release(ctx context.Context, plane types.UID, fence int64, then Then) error {
	key := ownersPrefix + string(plane)
	op := kv.Op{Delete: then.delete, Key: key}
	if !then.delete {
		op.Value = []byte(then.value)
	}
	if then.value != "" { // the watch may tell of it before the transaction has an answer
		o.passes(plane, true)
		defer o.passes(plane, false)
	}
	done, err := o.DB.Commit(ctx, kv.Txn{If: []kv.Condition{{Key: key, N: fence}}, Then: []kv.Op{op}, Else: []string{key}})
	switch {
	case err != nil:
		return err
	case !done.Held:
		return o.corrected(ctx, []string{key}, &done)
	case then.delete: // the watch will tell that the key is gone
		o.own(plane, record{seen: done.Rev})
	default:
		o.own(plane, record{server: then.value, rev: done.Rev, seen: done.Rev})
	}
	return nil
}

// deleted is the value of the key of a plane that is being deleted: nobody has it, nor is to.
const deleted = "-"

var errDeleted = errors.New("the control plane is being deleted")

// End has nobody write to a plane any more. Forget is called when nothing of it is left.
func (o *Owners) End(ctx context.Context, plane types.UID) error {
	_, err := o.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: ownersPrefix + string(plane), Value: []byte(deleted)}}})
	return err
}

// Forget removes what the log says of the owner of a plane.
func (o *Owners) Forget(ctx context.Context, plane types.UID) error {
	_, err := o.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Delete: true, Key: ownersPrefix + string(plane)}}})
	return err
}

// Owns is the condition that this server is the owner of a plane by a fence.
func (o *Owners) Owns(plane types.UID, fence int64) kv.Condition {
	return kv.Condition{Key: ownersPrefix + string(plane), N: fence}
}

// Holds asks the log whether this server is the owner of a plane by a fence.
func (o *Owners) Holds(ctx context.Context, plane types.UID, fence int64) (bool, error) {
	key := ownersPrefix + string(plane)
	var is *kv.KeyValue
	a, err := o.DB.Range(ctx, kv.Range{Key: key}, func(k kv.KeyValue) bool { is = &k; return false })
	if err != nil {
		return false, err
	}
	if is != nil && is.ModRevision == fence {
		return true, nil
	}
	return false, o.corrected(ctx, []string{key}, &kv.Committed{Rev: a.Rev, Else: []*kv.KeyValue{is}})
}

// Planes returns all planes of which the log says something.
func (o *Owners) Planes() []types.UID {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]types.UID, 0, len(o.planes))
	for uid := range o.planes {
		out = append(out, uid)
	}
	return out
}

// Fence is a log that takes transactions only while this server is the owner of a plane by a fence. lost is called once, in a goroutine
// of its own, when it turns out that it is not.
func (o *Owners) Fence(db store.DB, plane types.UID, fence int64, lost func()) store.DB {
	return &fenced{DB: db, owners: o, key: ownersPrefix + string(plane), fence: fence, lost: sync.OnceFunc(func() { go lost() })}
}

type fenced struct {
	store.DB
	owners *Owners
	key    string
	fence  int64
	lost   func()
}

// MaxOps is part of store.DB.
func (f *fenced) MaxOps() int { return f.DB.MaxOps() - 1 }

// Commit is part of store.DB.
func (f *fenced) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	t.If = append(slices.Clip(t.If), kv.Condition{Key: f.key, N: f.fence})
	t.Else = append(slices.Clip(t.Else), f.key)
	done, err := f.DB.Commit(ctx, t)
	if err != nil || done.Held {
		return done, err
	}
	last := len(done.Else) - 1
	now := done.Else[last]
	done.Else = done.Else[:last]
	if now != nil && now.ModRevision == f.fence {
		return done, nil
	}
	f.lost()
	return kv.Committed{}, errLost
}
