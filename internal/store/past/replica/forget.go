package replica

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

func (s *Replica) forgottenPrefix() string { return s.Prefix + "forgotten/" }

// Forget drops all that is known of a key, below the past's prefix, but what it is now: here, in what is shared, and, as soon as they learn
// of it, on the other servers. It returns whether this server knew anything.
func (s *Replica) Forget(ctx context.Context, key string) (bool, error) {
	_, err := s.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: s.forgottenPrefix() + key, Value: []byte(s.Server), TTL: s.Age}}})
	if err != nil {
		return false, err
	}
	found, err := s.past.Forget(ctx, key)
	return found, errors.Join(err, s.scrub(ctx, key))
}

// followForgotten forgets what other servers say, until ctx ends.
func (s *Replica) followForgotten(ctx context.Context) {
	if s.past.Reach(ctx, 1) != nil {
		return
	}
	seldom := logs.NewSeldom(s.Log, s.Clock, time.Minute)
	for seen := s.past.Started(); ctx.Err() == nil; {
		err := s.forgotten(ctx, &seen)
		if ctx.Err() != nil {
			return
		}
		seldom.Warn("forgotten", "it is not known what other servers have forgotten, trying again", "error", err)
		select {
		case <-s.Clock.After(every):
		case <-ctx.Done():
		}
	}
}

// forgotten forgets what was said after a revision, and what is said from now on.
func (s *Replica) forgotten(ctx context.Context, seen *int64) error {
	prefix := s.forgottenPrefix()
	var said []kv.KeyValue
	answer, err := s.DB.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix)}, func(k kv.KeyValue) bool {
		if k.ModRevision > *seen {
			said = append(said, k)
		}
		return true
	})
	if err != nil {
		return err
	}
	hear := func(k *kv.KeyValue) error {
		if string(k.Value) == s.Server {
			return nil
		}
		key := strings.TrimPrefix(string(k.Key), prefix)
		if _, err := s.past.Forget(ctx, key); err != nil {
			return err
		}
		if s.mayHaveAdded() {
			return s.scrub(ctx, key) // what it has added since the other one has done so
		}
		return nil
	}
	for n := range said {
		if err := hear(&said[n]); err != nil {
			return err
		}
	}
	*seen = answer.Rev
	return s.DB.Watch(ctx, kv.Watch{Key: prefix, Prefix: true, From: *seen + 1}, func(events []kv.Event, rev int64) error {
		for n := range events {
			if e := &events[n]; !e.Deleted {
				if err := hear(&e.KeyValue); err != nil {
					return err
				}
			}
		}
		*seen = rev
		return nil
	})
}

// mayHaveAdded says whether this server is the writer, as far as it knows.
func (s *Replica) mayHaveAdded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head == nil || s.head.Writer == s.Server
}

// attempts is how often a chunk is read again that another server has written meanwhile.
const attempts = 5

// scrub takes a key out of all chunks, but what it is now.
func (s *Replica) scrub(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range attempts {
		h, err := s.load(ctx)
		if err != nil {
			return err
		}
		current, _, err := s.read(ctx, s.past.Prefix+key, 0)
		if err != nil {
			return err
		}
		held := true
		for _, c := range h.Chunks {
			if held, err = s.scrubChunk(ctx, h, c, key, current); err != nil {
				return err
			}
			if !held {
				break
			}
		}
		if held {
			return nil
		}
	}
	return errors.New("the history that servers share changes too fast")
}

// scrubChunk takes a key out of a chunk. It reports false if another server has written
// meanwhile.
func (s *Replica) scrubChunk(ctx context.Context, h *head, c chunk, key string, current *kv.KeyValue) (bool, error) {
	changes, err := s.changes(ctx, c, h.seen)
	if err != nil {
		return false, err
	}
	known := false
	scrubbed := slices.DeleteFunc(changes, func(d past.Dated) bool {
		of := string(d.Key) == key
		known = known || of
		return of && (current == nil || d.ModRevision != current.ModRevision)
	})
	if !known {
		return true, nil
	}
	for n := range scrubbed {
		if d := &scrubbed[n]; string(d.Key) == key {
			d.CreateRevision, d.Prev = d.ModRevision, kv.KeyValue{} // as if it had been created so
		}
	}
	all := parts(encode(scrubbed))
	for n := range max(len(all), c.Parts) {
		op := kv.Op{Key: s.chunkKey(c, n)} // a part that is not needed any more is empty: the head counts it
		if n < len(all) {
			op.Value = all[n]
		}
		unchanged := []kv.Condition{{Key: s.headKey(), Is: kv.ModRevision, N: h.rev}, {Key: op.Key, Is: kv.ModRevisionAtMost, N: h.seen}}
		done, err := s.DB.Commit(ctx, kv.Txn{If: unchanged, Then: []kv.Op{op}})
		if err != nil || !done.Held {
			return false, err
		}
	}
	return true, nil
}
