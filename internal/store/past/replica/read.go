package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

// Restore returns what is shared; nil: there is nothing with which the log goes on. It is for past.Config.
func (s *Replica) Restore(ctx context.Context) (*past.Copy, error) {
	h, err := s.load(ctx)
	if err != nil || h.Writer == "" || h.Kept != s.Kept {
		return nil, err
	}
	if _, err := s.DB.Range(ctx, kv.Range{Key: s.headKey(), Rev: h.Reached, CountOnly: true}, nil); errors.Is(err, kv.ErrCompacted) {
		return nil, nil
	}
	return &past.Copy{Begun: h.Begun, BegunAt: time.UnixMilli(h.BegunAt), Reached: h.Reached, Changes: func(yield func([]past.Dated, error) bool) {
		for _, c := range h.Chunks {
			changes, err := s.changes(ctx, c, h.seen)
			if !yield(changes, err) || err != nil {
				return
			}
		}
	}}, nil
}

// changes reads a chunk as of a revision.
func (s *Replica) changes(ctx context.Context, c chunk, rev int64) ([]past.Dated, error) {
	var value []byte
	for n := range c.Parts {
		k, _, err := s.read(ctx, s.chunkKey(c, n), rev)
		if err != nil {
			return nil, err
		}
		if k == nil {
			return nil, fmt.Errorf("%w: a chunk is missing", errDamaged)
		}
		value = append(value, k.Value...)
	}
	return decode(value)
}
