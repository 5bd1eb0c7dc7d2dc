package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file reads values again that could not be decrypted, because the server of their keys was away, or the key was
// not configured yet, and those that could be, once keys have changed. Neither is an event of the log.

const (
	healAfter = 5 * time.Second
	healTries = 64 // values of a view that are tried at a time
)

// runHeal heals views now and then.
func (s *Store) runHeal(ctx context.Context) {
	for {
		select {
		case <-s.clock.After(healAfter):
			s.heal(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// heal has views loaded again that have values which could not be decrypted, and now can. Taps were not told of such values,
// so they are told that something is missing.
func (s *Store) heal(ctx context.Context) {
	healed := s.readable(ctx)
	for _, v := range s.allViews() {
		v.reportBroken()
		if v.heals(ctx) {
			s.log.Info("values can be decrypted that could not be before", "view", v.kind.Prefix)
			v.beginAgain()
			healed = true
		}
	}
	if healed {
		s.untold.clear() // what still cannot be decrypted is noted by the scans that follow
		s.lost()
	}
}

// untold are keys whose values the taps were not told of, because they could not be decrypted. No view may have them.
type untold struct {
	mu   sync.Mutex
	keys map[string]bool // below the store's prefix
}

// maxUntold bounds the keys that are remembered: when one of them can be read, taps scan everything.
const maxUntold = 1024

func (u *untold) add(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = map[string]bool{}
	}
	if len(u.keys) < maxUntold {
		u.keys[key] = true
	}
}

func (u *untold) remove(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

func (u *untold) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = nil
}

// some returns a few of the keys, others each time.
func (u *untold) some() (keys []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.keys {
		if keys = append(keys, key); len(keys) == healTries {
			break
		}
	}
	return keys
}

// readable reports whether a value that the taps were not told of can be decrypted by now.
func (s *Store) readable(ctx context.Context) bool {
	for _, key := range s.untold.some() {
		switch _, _, err := s.Read(ctx, key); {
		case err == nil:
			return true
		case errors.Is(err, ErrNotFound):
			s.untold.remove(key)
		}
	}
	return false
}

// Recheck reads what views hold once more, and has those loaded again that have values which can no longer be decrypted: the keys have
// changed. Otherwise these values would be served from memory until the next start, which then lacks them.
func (s *Store) Recheck(ctx context.Context) {
	for _, v := range s.allViews() {
		if v.kind.Transformer != nil && v.stale(ctx) {
			v.reset()
		}
	}
}

// stale reports whether the view may hold a value that can no longer be decrypted. A load that is under way may have read some with the
// former keys. Values that come later are decrypted as they come.
func (v *View) stale(ctx context.Context) (stale bool) {
	v.mu.Lock()
	state := v.state
	v.mu.Unlock()
	if state != loaded {
		return state == loading
	}
	asked := func(began time.Time, err error) { v.asked(etcdList, began, err) }
	_, err := v.store.all(ctx, v.etcdPrefix, asked, func(k kv.KeyValue) bool {
		stale = v.item(ctx, k).Err != nil && v.has(string(k.Key[len(v.etcdPrefix):]))
		return !stale && ctx.Err() == nil
	})
	return stale || err != nil && ctx.Err() == nil
}

// has reports whether the view has a value at a key.
func (v *View) has(key string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	i, ok := v.items.Get(key)
	return ok && i.Err == nil
}

// reportBroken logs the values that cannot be decrypted, each once as long as it stays so.
func (v *View) reportBroken() {
	type report struct {
		key string
		err error
	}
	var reports []report
	v.mu.Lock()
	for key, told := range v.broken {
		if i, ok := v.items.Get(key); ok && !told && len(reports) < healTries {
			v.broken[key] = true
			reports = append(reports, report{v.etcdPrefix + key, i.Err})
		}
	}
	v.mu.Unlock()
	for _, r := range reports {
		v.store.log.Error("a stored value cannot be decrypted", "key", r.key, "reason", r.err)
	}
}

// heals reports whether one of the values that could not be decrypted now can.
func (v *View) heals(ctx context.Context) bool {
	v.mu.Lock()
	var keys []string
	for key := range v.broken { // in another order each time
		if keys = append(keys, key); len(keys) == healTries {
			break
		}
	}
	v.mu.Unlock()
	for _, key := range keys {
		if i, err := v.Latest(ctx, key); err == nil && i.Err == nil {
			return true
		}
	}
	return false
}

// beginAgain has the view loaded again, and those who follow it begin anew. That is one step: a follower that began anew before
// would read the old items, and nothing would tell it of the healed ones.
func (v *View) beginAgain() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.healed++
	v.resetLocked()
}

// noteLocked remembers whether the item at a key (nil: none) could be decrypted.
func (v *View) noteLocked(key string, i *Item) {
	if i == nil || i.Err == nil {
		delete(v.broken, key)
		return
	}
	if v.broken == nil {
		v.broken = map[string]bool{}
	}
	if _, known := v.broken[key]; !known {
		v.broken[key] = false
	}
}

// healings counts how often values could be decrypted that could not be before: who followed the view was not told of them.
func (v *View) healings() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.healed
}
