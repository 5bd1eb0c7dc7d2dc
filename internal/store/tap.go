package store

import (
	"context"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Tap receives everything in the log, whether or not views of it are loaded.
// Keys are below the store's prefix. Its methods are called in order by the one
// goroutine that follows etcd, so they must be quick.
type Tap interface {
	// Put receives a value, decrypted. It must not be changed.
	Put(key string, rev int64, value []byte)
	// Deleted reports the deletion of a key.
	Deleted(key string, rev int64)
	// Lost says that events are missing. Store.Scan gives the current state
	// again.
	Lost()
}

// Tap passes everything to t from now on, until remove is called.
func (s *Store) Tap(t Tap) (remove func()) {
	entry := &t
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taps = append(slices.Clone(s.taps), entry)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taps = slices.DeleteFunc(slices.Clone(s.taps), func(other *Tap) bool { return other == entry })
	}
}

// tapped returns the registered taps; the slice is never changed.
func (s *Store) tapped() []*Tap {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.taps
}

// tell passes events to the taps.
func (s *Store) tell(ctx context.Context, events []kv.Event) {
	taps := s.tapped()
	if len(taps) == 0 {
		return
	}
	for n := range events {
		e := &events[n]
		key := string(e.Key[len(s.prefix):])
		if !s.owned(key) {
			continue
		}
		var value []byte
		if !e.Deleted {
			var err error
			if value, err = s.plain(ctx, &e.KeyValue); err != nil {
				s.untold.add(key)
			}
		}
		for _, t := range taps {
			switch {
			case e.Deleted:
				(*t).Deleted(key, e.ModRevision)
			case value != nil:
				(*t).Put(key, e.ModRevision, value)
			}
		}
	}
}

// plain returns a value decrypted.
func (s *Store) plain(ctx context.Context, k *kv.KeyValue) ([]byte, error) {
	var t Transformer
	if v := s.view(k.Key); v != nil {
		t = v.kind.Transformer
	} else if s.transformer != nil {
		t = s.transformer(string(k.Key[len(s.prefix):]))
	}
	if t == nil {
		return k.Value, nil
	}
	value, _, err := t.FromStorage(ctx, string(k.Key), k.Value)
	return value, err
}

// lost tells the taps that events are missing.
func (s *Store) lost() {
	for _, t := range s.tapped() {
		(*t).Lost()
	}
}

// owned says that a key below the prefix belongs to this store.
func (s *Store) owned(key string) bool { return s.owns == nil || s.owns(key) }

// Scan calls put for every key below a prefix, as of one revision, until put returns false. It loads no view. A Tap that was
// set before misses nothing: its events are newer than the scan, or the same.
func (s *Store) Scan(ctx context.Context, prefix string, put func(key string, rev int64, value []byte) bool) error {
	_, err := s.all(ctx, s.prefix+prefix, func(time.Time, error) {}, func(k kv.KeyValue) bool {
		key := string(k.Key[len(s.prefix):])
		if !s.owned(key) {
			return true
		}
		value, err := s.plain(ctx, &k)
		if err != nil {
			s.untold.add(key)
			return true
		}
		return put(key, k.ModRevision, value)
	})
	return err
}

// Read returns the newest value of a key below the store's prefix, or ErrNotFound, and the revision of the read. It loads no
// view.
func (s *Store) Read(ctx context.Context, key string) (value []byte, at int64, err error) {
	missing := true
	var unreadable error
	answer, err := s.db.Range(ctx, kv.Range{Key: s.prefix + key}, func(k kv.KeyValue) bool {
		missing = false
		value, unreadable = s.plain(ctx, &k)
		return true
	})
	switch {
	case err != nil:
	case missing:
		err = ErrNotFound
	default:
		err = unreadable // the object is there: nobody may take it for gone
	}
	return value, answer.Rev, err
}
