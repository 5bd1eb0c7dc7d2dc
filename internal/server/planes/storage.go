package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/splice"
)

// This file has where planes lie. A record in the root's log says it; a plane without one has always lain in the root's log itself.
//
// Only the owner of a plane changes its record, in a transaction that depends on the key of the owner. The owner has no such key in another
// etcd, so there is a mark of the plane, beside its keys, on which all that is written there depends. Who takes the plane, or is to
// write something else at its keys, replaces the mark, and what another server still does there fails from then on (tenure.go).

// recordsPrefix is where the records are in the log, by the UID of the plane.
const storagePrefix = "/kanzen/storage/"

// storage says where a plane lies.
type storage struct {
	// Stays are those in logs, one after the other; it lies where the last one is.
	Stays []stay `json:"stays"`
	// New says that there may be nothing in the first log, not even the mark.
	New bool `json:"new,omitempty"`
	// Left are the storage classes in which something of the plane may lie that is not its objects: a copy that is being made, or was not
	// finished, or what it was before it moved. It is removed.
	Left []string `json:"left,omitempty"`
	// Leaving says that it is being moved, and that no binding of it or to it comes into force until it has.
	Leaving bool `json:"leaving,omitempty"`

	at int64 // revision of the record; 0: there is none
}

// stay is the time in which a plane lies in a log, as part of splice.
type stay struct {
	Class string `json:"class"`
	By    int64  `json:"by,omitempty"`
	Since int64  `json:"since,omitempty"`
	// Until is the last revision, and Ended when that was, in seconds since 1970; of the last stay they are 0.
	Until int64 `json:"until,omitempty"`
	Ended int64 `json:"ended,omitempty"`
}

// class is where the plane lies.
func (s *storage) class() string { return s.Stays[len(s.Stays)-1].Class }

// classes are all in which something of the plane may be.
func (s *storage) classes() []string {
	all := append([]string{s.class()}, s.Left...)
	slices.Sort(all)
	return slices.Compact(all)
}

// without returns the record without what is left in a class.
func (s storage) without(class string) storage {
	s.Left = slices.DeleteFunc(slices.Clone(s.Left), func(c string) bool { return c == class })
	return s
}

// with returns the record with something that may be left in a class.
func (s storage) with(class string) storage {
	s = s.without(class)
	s.Left = append(s.Left, class)
	return s
}

// lasting is how long the history of a log that a plane has left is looked for there, and mostStays how many such logs there are at most.
const lasting, mostStays = 20 * time.Minute, 32

// moved returns the record of a plane that goes on in another class.
func (s storage) moved(to stay, until int64, now time.Time) storage {
	from := s.class()
	s = s.without(to.Class).with(from)
	s.Leaving = false
	s.Stays = slices.Clone(s.Stays)
	last := &s.Stays[len(s.Stays)-1]
	last.Until, last.Ended = until, now.Unix()
	s.Stays = slices.DeleteFunc(s.Stays, func(o stay) bool { return now.Sub(time.Unix(o.Ended, 0)) > lasting })
	s.Stays = append(s.Stays[max(0, len(s.Stays)-mostStays):], to)
	return s
}

// storageOf reads the record of a plane.
func (f *Fleet) storageOf(ctx context.Context, uid types.UID) (s storage, err error) {
	var broken error
	_, err = f.on.DB.Range(ctx, kv.Range{Key: storagePrefix + string(uid)}, func(k kv.KeyValue) bool {
		broken = json.Unmarshal(k.Value, &s)
		s.at = k.ModRevision
		return false
	})
	if err = errors.Join(err, broken); err != nil {
		return s, fmt.Errorf("read where the plane lies: %w", err)
	}
	if len(s.Stays) == 0 {
		s.Stays = []stay{{}}
	}
	return s, nil
}

// errOvertaken says that somebody else has changed where a plane lies.
var errOvertaken = errors.New("another server has the control plane now, or it is being deleted")

// record writes a record in the place of the one that was read, while conditions hold; beside is done in the same transaction.
func (f *Fleet) record(ctx context.Context, uid types.UID, s storage, while []kv.Condition, beside ...kv.Op) (storage, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	key := storagePrefix + string(uid)
	done, err := f.on.DB.Commit(ctx, kv.Txn{
		If:   append(slices.Clip(while), kv.Condition{Key: key, Is: kv.ModRevision, N: s.at}),
		Then: append(beside, kv.Op{Key: key, Value: value}),
	})
	if err != nil {
		return s, fmt.Errorf("write where the plane lies: %w", err)
	}
	if !done.Held {
		return s, errOvertaken
	}
	s.at = done.Rev
	return s, nil
}

// markOf is the key of a plane's mark in the log that it lies in.
func markOf(uid types.UID) string { return Prefix + string(uid) }

// readMark returns the revision of a plane's mark; 0: there is none.
func readMark(ctx context.Context, db store.DB, uid types.UID) (rev int64, err error) {
	_, err = db.Range(ctx, kv.Range{Key: markOf(uid)}, func(k kv.KeyValue) bool { rev = k.ModRevision; return false })
	return rev, err
}

// errNothing says that the etcd that a storage class names has not got what it should have.
var errNothing = errors.New("there is nothing of the plane in its storage class: does --planes-storage name the right etcd?")

// fence replaces the mark of a plane in a log, so that what others write at its keys fails from now on, and returns the revision of the mark.
// holds is asked whether this server may do that: it must have become so before fence is called, and when it is asked it may not be any more.
// Somebody who has become the owner after that replaces the mark after this, or this fails.
func (f *Fleet) fence(ctx context.Context, db store.DB, uid types.UID, anew bool, holds func(context.Context) (bool, error)) (int64, error) {
	for {
		at, err := readMark(ctx, db, uid)
		if err != nil {
			return 0, err
		}
		if at == 0 && !anew {
			return 0, errNothing
		}
		if ok, err := holds(ctx); err != nil {
			return 0, err
		} else if !ok {
			return 0, errOvertaken
		}
		done, err := db.Commit(ctx, kv.Txn{
			If:   []kv.Condition{{Key: markOf(uid), Is: kv.ModRevision, N: at}},
			Then: []kv.Op{{Key: markOf(uid), Value: []byte(f.self() + " " + uuid.NewString())}},
		})
		if err != nil || done.Held {
			return done.Rev, err
		}
	}
}

// self is what marks call this server.
func (f *Fleet) self() string {
	if o := f.owners.Load(); o != nil {
		return o.Self().Name
	}
	return f.url
}

// assign has a new plane lie in the storage class that it names, before anything of it is stored. An imported one moves there.
func (f *Fleet) assign(ctx context.Context, h *hosted, p *Plane) error {
	if p.Spec.StorageClass == "" || p.Spec.Imported || made(p) {
		return nil
	}
	s, err := f.storageOf(ctx, h.uid)
	if err != nil {
		return err
	}
	if s.at == 0 {
		if p.Status.Base != "" {
			return nil
		}
		a, err := f.on.DB.Range(ctx, kv.Range{Key: h.prefix() + "/", End: kv.PrefixEnd(h.prefix() + "/"), CountOnly: true}, nil)
		if err != nil || a.Count > 0 {
			return err // it has begun without a class, and moves
		}
		if _, err := f.classOf(p.Spec.StorageClass); err != nil {
			return err
		}
		if s, err = f.record(ctx, h.uid, storage{Stays: []stay{{Class: p.Spec.StorageClass}}, New: true}, nil); err != nil {
			return err
		}
	}
	h.lies(s.class())
	if !s.New {
		return nil
	}
	c, err := f.answering(s.class())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, classPatience)
	defer cancel()
	if _, err := f.fence(ctx, c.db, h.uid, true, always); err != nil {
		return err
	}
	s.New = false
	_, err = f.record(ctx, h.uid, s, nil)
	return err
}

func always(context.Context) (bool, error) { return true, nil }

// lies takes up where the plane lies.
func (h *hosted) lies(class string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.liesNow(class)
}

// liesNow takes up where the plane lies, and reports whether that is elsewhere than before. The caller holds mu.
func (h *hosted) liesNow(class string) (learned bool) {
	was := h.class
	if h.class = class; was != class && h.isMade() {
		h.fleet.tellExports(h.name, was, class)
	}
	return was != class
}

// lying is where the plane lies, as far as this server knows.
func (h *hosted) lying() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.class
}

// spliced makes one log of those that a plane has lain in; db is the one that it lies in, as it is written to. Of the others those are left
// out that this server does not have, and those before them.
func (f *Fleet) spliced(s *storage, db store.DB) store.DB {
	last := len(s.Stays) - 1
	now := s.Stays[last]
	if last == 0 && now.By == 0 && now.Since == 0 {
		return db
	}
	parts := []splice.Part{{DB: db, By: now.By, Since: now.Since}}
	for n := last - 1; n >= 0; n-- {
		c := f.classes[s.Stays[n].Class]
		if c == nil {
			break
		}
		parts = append(parts, splice.Part{DB: c.db, By: s.Stays[n].By, Since: s.Stays[n].Since, Until: s.Stays[n].Until})
	}
	slices.Reverse(parts)
	return splice.New(parts...)
}

// eraseIn removes what is stored of a plane in a class, after it has made sure that nobody writes there any more.
func (f *Fleet) eraseIn(ctx context.Context, uid types.UID, name string, holds func(context.Context) (bool, error)) error {
	c, err := f.answering(name)
	if err != nil {
		return err
	}
	at, err := f.fence(ctx, c.db, uid, true, holds)
	if err != nil {
		return err
	}
	still := []kv.Condition{{Key: markOf(uid), Is: kv.ModRevision, N: at}}
	held, err := eraseWhile(ctx, c.db, markOf(uid)+"/", still)
	if err != nil {
		return err
	}
	// In the root's log a plane that has never moved has no mark, so one without a mark would look as such a plane.
	if !held || name == "" {
		return nil
	}
	if _, err = c.db.Commit(ctx, kv.Txn{If: still, Then: []kv.Op{{Delete: true, Key: markOf(uid)}}}); err != nil {
		return err
	}
	// Without the mark no binding comes into force any more.
	return exports.Forget(ctx, c.db, uid, kv.Condition{Key: markOf(uid), Is: kv.ModRevision, N: 0})
}

// eraseStored removes all that is stored of a plane that is gone, wherever that is, and then its record.
func (f *Fleet) eraseStored(ctx context.Context, uid types.UID) error {
	for {
		s, err := f.storageOf(ctx, uid)
		if err != nil {
			return err
		}
		if s.at == 0 {
			return f.erase(ctx, markOf(uid)+"/")
		}
		for _, name := range s.classes() {
			if err := f.eraseIn(ctx, uid, name, always); err != nil {
				return err
			}
		}
		key := storagePrefix + string(uid)
		done, err := f.on.DB.Commit(ctx, kv.Txn{
			If:   []kv.Condition{{Key: key, Is: kv.ModRevision, N: s.at}},
			Then: []kv.Op{{Delete: true, Key: key}, {Delete: true, Key: markOf(uid)}},
		})
		if err != nil || done.Held {
			return err
		}
	}
}

// sweepEvery is how often all records are looked at.
const sweepEvery = 5 * time.Minute

// sweepStorage removes what is stored of planes that are gone, and has what moves have left behind removed, until ctx ends.
func (f *Fleet) sweepStorage(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.lookAtRecords(ctx); err != nil && ctx.Err() == nil {
			f.log.Info("something of planes is left in storage classes for now", "error", err)
		}
		select {
		case <-f.on.Clock.After(sweepEvery):
		case <-ctx.Done():
		}
	}
}

func (f *Fleet) lookAtRecords(ctx context.Context) error {
	var all []types.UID
	left := map[types.UID]bool{}
	_, err := f.on.DB.Range(ctx, kv.Range{Key: storagePrefix, End: kv.PrefixEnd(storagePrefix)}, func(k kv.KeyValue) bool {
		uid := types.UID(strings.TrimPrefix(string(k.Key), storagePrefix))
		var s storage
		left[uid] = json.Unmarshal(k.Value, &s) == nil && len(s.Left) > 0
		all = append(all, uid)
		return true
	})
	if err != nil {
		return err
	}
	var failures []error
	for _, uid := range all {
		exists, err := f.exists(ctx, uid)
		switch {
		case err != nil:
			return err
		case exists && left[uid]:
			f.moves.AddAfter(string(uid), 0)
		case !exists:
			within, cancel := context.WithTimeout(ctx, time.Minute)
			failures = append(failures, f.eraseStored(within, uid))
			cancel()
		}
	}
	return errors.Join(failures...)
}

// ownerOf are the conditions under which this server owns a plane by a fence.
func ownerOf(o *owners.Owners, uid types.UID, fence int64) []kv.Condition {
	if o == nil {
		return nil
	}
	return []kv.Condition{o.Owns(uid, fence)}
}
