package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// ErrMoved says that what was written to a fork is based on what has changed since.
var ErrMoved = errors.New("what the writes are based on has changed")

// ErrTooMany says that a transaction has more writes, or more bytes, than the database takes.
var ErrTooMany = errors.New("too many writes for one transaction")

// ErrApart says that writes are of several databases.
var ErrApart = errors.New("the objects are kept in different etcd clusters, and cannot be written in one transaction")

// Adopt writes what was written to a fork of the cluster, as one: all of it at the revision that it returns, or nothing. It returns
// once this server has seen that. Nothing written: the revision of the fork. Errors: ErrMoved, ErrTooMany, ErrApart.
func (c *Cluster) Adopt(ctx context.Context, log Forked) (int64, error) {
	s, t, err := c.adopting(ctx, log)
	if err != nil || len(t.Then) == 0 {
		return log.Cut().Rev, err
	}
	defer s.waited(ctx, s.clock.Now())
	done, err := s.db.Commit(ctx, t)
	switch {
	case errors.Is(err, ErrTooLarge):
		return 0, fmt.Errorf("%w: %w", ErrTooMany, err)
	case err != nil:
		return 0, uncertain{err}
	case !done.Held:
		return 0, ErrMoved
	}
	return done.Rev, s.WaitFor(ctx, done.Rev)
}

// surelyTaken is how many bytes every database takes in a transaction.
const surelyTaken = 1 << 20

// Adoptable reports whether Adopt would fail because of what is written: ErrTooMany, ErrApart. It writes nothing.
func (c *Cluster) Adoptable(ctx context.Context, log Forked) error {
	s, t, err := c.adopting(ctx, log)
	if err != nil {
		return err
	}
	size := 0
	for _, o := range t.Then {
		size += len(o.Key) + len(o.Value)
	}
	if size < surelyTaken {
		return nil
	}
	// The database is asked, with a condition that never holds.
	t.If = append(t.If, kv.Condition{Key: t.Then[0].Key, Is: kv.ModRevision, N: math.MaxInt64})
	if _, err := s.db.Commit(ctx, t); errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooMany, err)
	} else if err != nil {
		return uncertain{err}
	}
	return nil
}

// adopting is the transaction of Adopt, and where it is carried out; one without writes if there are none.
func (c *Cluster) adopting(ctx context.Context, log Forked) (*Store, kv.Txn, error) {
	ops, relied := log.Written()
	if len(ops) == 0 {
		return nil, kv.Txn{}, nil
	}
	s := c.At(ops[0].Key[len(c.stores[0].prefix):])
	for _, o := range ops {
		if c.At(o.Key[len(s.prefix):]) != s {
			return nil, kv.Txn{}, ErrApart
		}
	}
	t, err := c.adoption(ctx, s, log.Cut(), ops, relied)
	if err != nil {
		return nil, kv.Txn{}, err
	}
	if most := s.db.MaxOps(); len(t.Then) > most || len(t.If) > most {
		return nil, kv.Txn{}, fmt.Errorf("%w: %d keys are written and %d relied on, and the database takes %d", ErrTooMany, len(t.Then), len(t.If), most)
	}
	return s, t, nil
}

// adoption is the transaction that carries out writes, if all that they were based on is as it was in a cut.
func (c *Cluster) adoption(ctx context.Context, s *Store, cut *Cut, ops []kv.Op, relied []string) (kv.Txn, error) {
	var t kv.Txn
	expect := func(key string) {
		is := kv.Condition{Key: key, Is: kv.ModRevision}
		if i := cut.item(key); i != nil {
			is.N = i.Rev
		} else if cut.of(key) == nil { // it is in no view, as marks are: what it was is not known, but when it was that
			is.Is, is.N = kv.ModRevisionAtMost, cut.revs[s]
		}
		t.If = append(t.If, is)
	}
	for _, o := range ops {
		expect(o.Key)
		if !o.Delete {
			var err error
			if o.Value, err = s.sealedAt(ctx, o.Key, o.Value); err != nil {
				return kv.Txn{}, err
			}
		}
		t.Then = append(t.Then, o)
	}
	for _, key := range relied {
		_, written := slices.BinarySearchFunc(ops, key, func(o kv.Op, key string) int { return strings.Compare(o.Key, key) })
		if !written && c.At(key[len(s.prefix):]) == s {
			expect(key)
		}
	}
	return t, nil
}

// sealedAt returns the bytes to store for a value at a key of the log.
func (s *Store) sealedAt(ctx context.Context, key string, value []byte) ([]byte, error) {
	if v := s.view([]byte(key)); v != nil {
		return v.sealed(ctx, key, value)
	}
	if s.transformer != nil {
		if t := s.transformer(key[len(s.prefix):]); t != nil {
			return t.ToStorage(ctx, key, value)
		}
	}
	return value, nil
}
