package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// head says what there is. It is one key, in JSON.
type head struct {
	// Writer is the server that has written it last, and Kept of what the changes are.
	Writer string `json:"writer"`
	Kept   string `json:"kept"`
	// Begun is the revision after which the changes begin, and Reached the one up to which they are complete.
	Begun   int64   `json:"begun"`
	BegunAt int64   `json:"begunAt"` // milliseconds
	Reached int64   `json:"reached"`
	Chunks  []chunk `json:"chunks"`
	// Made is how many chunks there have ever been.
	Made int64 `json:"made"`
	// Dropped are chunks whose keys are still to be deleted.
	Dropped []chunk `json:"dropped,omitempty"`

	rev  int64 // of the key; 0: there is none
	seen int64 // the revision at which it was read
}

// chunk has the changes after one revision, up to another one.
type chunk struct {
	Number int64 `json:"number"` // which no other chunk has had
	After  int64 `json:"after"`
	Last   int64 `json:"last"`
	Bytes  int64 `json:"bytes"`
	// Parts are the keys that it has.
	Parts int `json:"parts"`
	// Begun and At are when it was begun and written last, in milliseconds.
	Begun int64 `json:"begun"`
	At    int64 `json:"at"`
}

// parts cuts the value of a chunk into those of its keys.
func parts(value []byte) [][]byte { return slices.Collect(slices.Chunk(value, mostBytes)) }

func (s *Replica) headKey() string { return s.Prefix + "head" }

func (s *Replica) chunkKey(c chunk, part int) string {
	return fmt.Sprintf("%schunk/%016x/%02x", s.Prefix, c.Number, part)
}

// load reads the head. Of one that is damaged it returns the revision.
func (s *Replica) load(ctx context.Context) (*head, error) {
	h := &head{}
	k, rev, err := s.read(ctx, s.headKey(), 0)
	if err != nil || k == nil {
		return h, err
	}
	if err := json.Unmarshal(k.Value, h); err != nil {
		return &head{rev: k.ModRevision}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	h.rev, h.seen = k.ModRevision, rev
	return h, nil
}

// read reads a key as of a revision; 0: the newest. It returns nil if there is none, and the newest revision.
func (s *Replica) read(ctx context.Context, key string, at int64) (found *kv.KeyValue, rev int64, err error) {
	answer, err := s.DB.Range(ctx, kv.Range{Key: key, Rev: at}, func(k kv.KeyValue) bool {
		found = &k
		return false
	})
	return found, answer.Rev, err
}

// mostOps is how many keys are deleted at a time.
const mostOps = kv.MaxOps / 2

// commit makes a head of the one that was read, with the value of a chunk that is new or has grown; nil: none. It reports false if there is
// another head by now.
func (s *Replica) commit(ctx context.Context, next *head, grown *chunk, value []byte) (bool, error) {
	unchanged := []kv.Condition{{Key: s.headKey(), Is: kv.ModRevision, N: next.rev}}
	t := kv.Txn{If: unchanged}
	if grown != nil {
		for n, part := range parts(value) {
			t.Then = append(t.Then, kv.Op{Key: s.chunkKey(*grown, n), Value: part})
			if n+1 == grown.Parts {
				break
			}
			// No head tells of a chunk of several parts before all of them are there.
			if done, err := s.DB.Commit(ctx, t); err != nil || !done.Held {
				return false, err
			}
			t.Then = nil
		}
	}
	s.surplus(next)
	for len(next.Dropped) > 0 && len(t.Then) < mostOps {
		c := next.Dropped[0]
		next.Dropped = next.Dropped[1:]
		for n := range c.Parts {
			t.Then = append(t.Then, kv.Op{Delete: true, Key: s.chunkKey(c, n)})
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	t.Then = append(t.Then, kv.Op{Key: s.headKey(), Value: text})
	done, err := s.DB.Commit(ctx, t)
	if err != nil || !done.Held {
		return false, err
	}
	next.rev = done.Rev
	return true, nil
}

// clear deletes all chunks.
func (s *Replica) clear(ctx context.Context) error {
	var ops []kv.Op
	prefix := s.Prefix + "chunk/"
	_, err := s.DB.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix)}, func(k kv.KeyValue) bool {
		ops = append(ops, kv.Op{Delete: true, Key: string(k.Key)})
		return true
	})
	for some := range slices.Chunk(ops, mostOps) {
		if err == nil {
			_, err = s.DB.Commit(ctx, kv.Txn{Then: some})
		}
	}
	return err
}

// surplus drops the chunks that are too old, or too much.
func (s *Replica) surplus(h *head) {
	total := int64(0)
	for _, c := range h.Chunks {
		total += c.Bytes
	}
	now := s.Clock.Now().UnixMilli()
	for len(h.Chunks) > 1 && (total > s.Bytes || now-h.Chunks[0].At > s.Age.Milliseconds()) {
		oldest := h.Chunks[0]
		total -= oldest.Bytes
		h.Begun, h.BegunAt, h.Chunks, h.Dropped = oldest.Last, oldest.At, h.Chunks[1:], append(h.Dropped, oldest)
	}
}
