package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/splice"
)

// This file moves planes between storage classes while they are used.
//
// The owner notes in the record that something may be left in the class that the plane goes to, and makes sure that nobody else writes
// there. It copies the objects as of one revision, then again and again what has changed since. At last it stops the plane, as for
// another server: requests wait. It copies the rest, and the record says in one transaction where the plane lies. Then the plane wakes there.
//
// Whenever a server ends, what the record says holds: before that transaction the plane lies where it did, and a copy is left that the next
// move begins anew or that is removed; after it the plane lies in the new class, and the old objects are left. Nothing else is remembered.

const (
	// movesAtOnce is how many planes a server moves, or removes the rest of, at a time.
	movesAtOnce = 4
	// moveAgain is how long a move that has failed waits before it begins anew.
	moveAgain = 10 * time.Second
	// maxRounds is how often what has changed is copied before the plane is stopped, whatever is written meanwhile, and fewChanges how
	// many changes are so few that it is stopped.
	maxRounds, fewChanges = 20, 100
	// opsOfCopy bounds the operations of a transaction of a copy.
	opsOfCopy = 512
)

// restless reports whether the plane is to lie elsewhere than it does, as far as this server knows.
func (h *hosted) restless() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isMade() && !h.over && h.wantedClass != h.class
}

// movesHere reports whether it is this server that moves a plane: its owner, or the one that is to be.
func (f *Fleet) movesHere(h *hosted) bool {
	o := f.owners.Load()
	if o == nil {
		return f.on.Embedded() // otherwise there may be others
	}
	preferred := f.preferred(o, h)
	owner, _ := o.Owner(h.uid)
	switch {
	case preferred != nil && preferred != o.Self():
		return false // it moves there first
	case owner != nil:
		return owner == o.Self()
	}
	return preferred != nil || o.Chosen(h.uid) == o.Self()
}

// relocate has a plane lie where it is to, and nothing of it lie elsewhere.
func (f *Fleet) relocate(ctx context.Context, uid string) error {
	f.mu.RLock()
	h := f.byUID[types.UID(uid)]
	f.mu.RUnlock()
	if h == nil || !h.isMade() || !f.movesHere(h) {
		return nil
	}
	s, err := f.storageOf(ctx, h.uid)
	if err != nil {
		return err
	}
	h.mu.Lock()
	learned := h.liesNow(s.class())
	wanted, over := h.wantedClass, h.over
	h.mu.Unlock()
	if over {
		return nil
	}
	if learned {
		f.queue.AddAfter(h.name, 0) // its status
	}
	if wanted != s.class() {
		f.queue.AddAfter(h.name, 0) // its status
		err := f.move(ctx, h, wanted)
		h.mu.Lock()
		h.unmoved = err
		h.mu.Unlock()
		f.queue.AddAfter(h.name, 0)
		if err != nil && ctx.Err() == nil {
			f.log.Warn("a plane has not moved to another storage class", "plane", h.name, "to", wanted, "error", err)
			f.moves.AddAfter(uid, moveAgain)
			return nil
		}
	} else if h.forgetFailure() {
		f.queue.AddAfter(h.name, 0)
	}
	return f.tidy(ctx, h)
}

// forgetFailure takes up that the plane is not to move any more, and reports whether that was other.
func (h *hosted) forgetFailure() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.unmoved != nil
	h.unmoved = nil
	return was
}

// tidy removes what is left of a plane where it does not lie.
func (f *Fleet) tidy(ctx context.Context, h *hosted) error {
	s, err := f.remains(ctx, h)
	if err != nil {
		return err
	}
	for _, name := range slices.Clone(s.Left) {
		if name != s.class() {
			within, cancel := context.WithTimeout(ctx, time.Minute)
			err = f.eraseIn(within, h.uid, name, f.recorded(h.uid, s))
			cancel()
		}
		if errors.Is(err, errOvertaken) {
			return nil // whoever has changed the record goes on
		}
		if err != nil {
			f.log.Info("something of a plane is left in a storage class for now", "plane", h.name, "class", name, "error", err)
			f.moves.AddAfter(string(h.uid), moveAgain)
			return nil
		}
		if s, err = f.record(ctx, h.uid, s.without(name), nil); err != nil {
			return err
		}
	}
	return nil
}

// recorded asks whether a record is still as it was read.
func (f *Fleet) recorded(uid types.UID, s storage) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		now, err := f.storageOf(ctx, uid)
		return now.at == s.at, err
	}
}

// moving is a move that is under way.
type moving struct {
	*Fleet
	h     *hosted
	own   *claimed
	s     storage
	owner []kv.Condition // that this server is the owner of the plane
	from  store.DB       // with the revisions that the plane's clients know
	to    *class
	still []kv.Condition // that nobody else writes in it at the plane's keys
	batch []kv.Op
	size  int
	at    int64 // up to which revision everything is copied
}

// move has a plane lie in another class.
func (f *Fleet) move(ctx context.Context, h *hosted, class string) error {
	to, err := f.answering(class)
	if err != nil {
		return err
	}
	from, err := f.classOf(h.lying())
	if err != nil {
		return err
	}
	if err := f.unbound(ctx, h, from); err != nil { // it is not woken for that, again and again
		_, staying := f.remains(ctx, h)
		return errors.Join(err, staying)
	}
	// It is awake while it is copied, as it would be anyway if it is used: nobody waits for the copy.
	if _, err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	h.mu.Lock()
	own := h.own
	h.mu.Unlock()
	if own == nil { // it was stopped meanwhile
		return errOvertaken
	}
	m := &moving{Fleet: f, h: h, own: own, s: own.storage, owner: ownerOf(f.owners.Load(), h.uid, own.fence), to: to}
	if err := m.begin(ctx); err != nil {
		return err
	}
	began := f.on.Clock.Now()
	if err := m.carry(ctx); err != nil {
		m.abandon(ctx)
		return err
	}
	f.log.Info("a plane has moved to another storage class", "plane", h.name, "from", own.storage.class(), "to", class, "took", f.on.Clock.Since(began))
	return h.rouse(ctx)
}

// carry copies the plane while it is used, and then has it lie where the copy is.
func (m *moving) carry(ctx context.Context) error {
	if err := m.copyAll(ctx); err != nil {
		return err
	}
	for range maxRounds {
		n, err := m.copyChanges(ctx)
		if err != nil {
			return err
		}
		if n <= fewChanges {
			break
		}
	}
	then := owners.Asleep()
	if o := m.owners.Load(); o != nil {
		then = owners.Passed(o.Self())
	}
	began := m.on.Clock.Now()
	err := m.h.between(m.own.fence, then, func() error { return m.finish(ctx) })
	m.metrics.moved(m.on.Clock.Since(began), err)
	return err
}

// begin makes sure that the plane may move, and that nothing of it is in the class that it moves to, nor comes there.
func (m *moving) begin(ctx context.Context) (err error) {
	h, from := m.h, m.own.class
	h.mu.Lock()
	under := h.under
	h.mu.Unlock()
	m.s = m.own.storage
	if now, err := m.storageOf(ctx, h.uid); err != nil {
		return err
	} else if now.class() == m.s.class() {
		m.s = now // what was left is removed meanwhile
	}
	if m.s.at == 0 && under.imported {
		mark, err := m.importMarkOf(ctx, h.uid)
		if err != nil || !mark.Done {
			return errors.Join(err, errAwaitsImport)
		}
		m.s.Stays = []stay{{By: mark.Shift, Since: mark.at + mark.Shift}}
	}
	m.from = m.spliced(&m.s, m.own.db)
	if err := sameLog(ctx, from.db, m.to.db); err != nil {
		return err
	}
	s := m.s.with(m.to.name)
	s.Leaving = true
	if m.s, err = m.record(ctx, h.uid, s, m.owner); err != nil {
		return err
	}
	mark, err := m.fence(ctx, m.to.db, h.uid, true, m.recorded(h.uid, m.s))
	if err != nil {
		return err
	}
	m.still = []kv.Condition{{Key: markOf(h.uid), Is: kv.ModRevision, N: mark}}
	held, err := eraseWhile(ctx, m.to.db, h.prefix()+"/", m.still)
	if err == nil && !held {
		err = errOvertaken
	}
	return err
}

// unbound refuses the move of a plane if a binding of it or to it is in force: what a provider sees is in one log.
func (f *Fleet) unbound(ctx context.Context, h *hosted, lies *class) error {
	bonds, err := exports.InForce(ctx, lies.db, h.uid)
	if err != nil || len(bonds) == 0 {
		return err
	}
	b, more := bonds[0], ""
	what := fmt.Sprintf("the plane %s has bound its export %s", b.Plane, b.Export)
	if b.Consumer == h.uid {
		f.mu.RLock()
		provider := f.byUID[b.Provider]
		f.mu.RUnlock()
		if what = "it has bound an export"; provider != nil {
			what = fmt.Sprintf("it has bound the export %s/%s", provider.name, b.Export)
		}
	}
	if len(bonds) > 1 {
		more = fmt.Sprintf(", and %d more bindings of it or to it are in force", len(bonds)-1)
	}
	return fmt.Errorf("%s%s; planes with such bindings lie in one log, and stay there", what, more)
}

// remains takes up that a plane is not being moved, and returns its record.
func (f *Fleet) remains(ctx context.Context, h *hosted) (storage, error) {
	s, err := f.storageOf(ctx, h.uid)
	if err != nil || !s.Leaving {
		return s, err
	}
	s.Leaving = false
	return f.record(ctx, h.uid, s, nil)
}

// errSameLog says that two storage classes are one etcd.
var errSameLog = errors.New("both storage classes are the same etcd")

// sameLog returns an error if two logs are one: a plane has the same keys in each, and would be lost.
func sameLog(ctx context.Context, a, b store.DB) error {
	key := "/kanzen/probes/" + uuid.NewString()
	if _, err := b.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: key, TTL: time.Minute}}}); err != nil {
		return err
	}
	answer, err := a.Range(ctx, kv.Range{Key: key, CountOnly: true}, nil)
	if err == nil && answer.Count > 0 {
		err = errSameLog
	}
	_, removing := b.Commit(ctx, kv.Txn{Then: []kv.Op{{Delete: true, Key: key}}})
	return errors.Join(err, removing)
}

// copyAll copies all objects as they are at one revision.
func (m *moving) copyAll(ctx context.Context) (err error) {
	if m.at, err = m.from.Head(ctx); err != nil {
		return err
	}
	prefix := m.h.prefix() + "/"
	err = eachPage(ctx, m.from, prefix, m.at, func(page []kv.KeyValue) error {
		for _, k := range page {
			if err := m.put(ctx, k); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, m.flush(ctx))
}

// copyChanges copies what has changed since, and returns how many changes there were.
func (m *moving) copyChanges(ctx context.Context) (n int, err error) {
	head, err := m.from.Head(ctx)
	if err != nil {
		return 0, err
	}
	w := kv.Watch{Key: m.h.prefix() + "/", Prefix: true, From: m.at + 1, Until: head}
	if w.From <= w.Until {
		err = m.from.Watch(ctx, w, func(events []kv.Event, _ int64) error {
			n += len(events)
			for _, e := range events {
				if err := m.change(ctx, &e); err != nil {
					return err
				}
			}
			return m.flush(ctx)
		})
	}
	m.at = head
	return n, err
}

func (m *moving) change(ctx context.Context, e *kv.Event) error {
	if !e.Deleted {
		return m.put(ctx, e.KeyValue)
	}
	return m.add(ctx, kv.Op{Delete: true, Key: string(e.Key)})
}

// put copies one object. Those that end by themselves start anew to live, as in an import.
func (m *moving) put(ctx context.Context, k kv.KeyValue) error {
	op := kv.Op{Key: string(k.Key), Value: splice.Carry(k)}
	if id, err := m.transfers.kinds().ID(transfer.Registry + strings.TrimPrefix(op.Key, m.h.prefix()+"/")); err == nil {
		op.TTL = m.ttl(id)
	}
	return m.add(ctx, op)
}

func (m *moving) add(ctx context.Context, op kv.Op) error {
	twice := slices.ContainsFunc(m.batch, func(o kv.Op) bool { return o.Key == op.Key })
	if twice || len(m.batch) >= min(m.to.db.MaxOps(), opsOfCopy) || m.size > 0 && m.size+len(op.Value) > batchBytes {
		if err := m.flush(ctx); err != nil {
			return err
		}
	}
	m.batch = append(m.batch, op)
	m.size += len(op.Value)
	return nil
}

// flush writes the batch.
func (m *moving) flush(ctx context.Context) error {
	if len(m.batch) == 0 {
		return nil
	}
	done, err := m.to.db.Commit(ctx, kv.Txn{If: m.still, Then: m.batch})
	if errors.Is(err, kv.ErrTooLarge) {
		return fmt.Errorf("%s: %w for the storage class %q", strings.TrimPrefix(m.batch[0].Key, m.h.prefix()+"/"), err, m.to.name)
	}
	if err != nil {
		return fmt.Errorf("write to the storage class %q: %w", m.to.name, err)
	}
	if !done.Held {
		return errOvertaken
	}
	m.batch, m.size = nil, 0
	return nil
}

// finish copies the rest of a plane that is stopped, and has it lie where the copy is.
func (m *moving) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, classPatience)
	defer cancel()
	if _, err := m.copyChanges(ctx); err != nil {
		return err
	}
	// A binding that was about to come into force has done so by now, or never will.
	if _, err := m.fence(ctx, m.own.class.db, m.h.uid, true, m.recorded(m.h.uid, m.s)); err != nil {
		return err
	}
	if err := m.unbound(ctx, m.h, m.own.class); err != nil {
		return err
	}
	// All revisions that anybody was told are not after this one, and all that anybody will be told are.
	until := m.at
	now, err := m.to.db.Head(ctx)
	if err != nil {
		return err
	}
	by := max(0, until-now)
	var beside []kv.Op
	if m.s.class() == "" { // who still reads there ends before what is removed
		beside = append(beside, kv.Op{Key: markOf(m.h.uid), Value: []byte("moved to " + m.to.name)})
	}
	s := m.s.moved(stay{Class: m.to.name, By: by, Since: now + by}, until, m.on.Clock.Now())
	if m.s, err = m.record(ctx, m.h.uid, s, m.owner, beside...); err != nil {
		return err
	}
	m.h.lies(m.to.name)
	return nil
}

// abandon removes the copy of a move that has failed, as far as that is possible now. The record says that it may be there.
func (m *moving) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), classPatience)
	defer cancel()
	if now, err := m.storageOf(ctx, m.h.uid); err == nil && now.class() != m.to.name {
		_, _ = eraseWhile(ctx, m.to.db, m.h.prefix()+"/", m.still) // otherwise later
		_, _ = m.remains(ctx, m.h)
	}
}

// eachPage passes on all keys with a prefix at a revision, some at a time.
func eachPage(ctx context.Context, db store.DB, prefix string, rev int64, each func([]kv.KeyValue) error) error {
	for from := prefix; ; {
		page, err := pageOf(ctx, db, from, prefix, rev)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := each(page); err != nil {
			return err
		}
		from = kv.After(page[len(page)-1].Key)
	}
}

// pageOf reads the next keys with a prefix, beginning with one of them.
func pageOf(ctx context.Context, db store.DB, from, prefix string, rev int64) (page []kv.KeyValue, err error) {
	size := 0
	_, err = db.Range(ctx, kv.Range{Key: from, End: kv.PrefixEnd(prefix), Rev: rev, Limit: pageKeys}, func(k kv.KeyValue) bool {
		page = append(page, k)
		size += len(k.Value)
		return size < pageBytes
	})
	return page, err
}
