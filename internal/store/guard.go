package store

import (
	"context"
	"errors"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// ErrVoid says that the mark of a write's guard was set again: the state that
// the write relied on has changed.
var ErrVoid = errors.New("what the write relies on was marked again")

// Guard lets a write happen only if its mark was not set after a revision. A mark lies in the log of the resource that its
// name begins with, and a write of an object that lies in another log is not held back.
type Guard struct {
	Mark string
	Rev  int64
}

// marks is where marks are kept, below the store's prefix. No resource and no
// group has this name.
const marks = "marks/"

// Mark sets a mark and returns its revision. Writes that rely on an earlier
// revision of the mark and are not stored yet fail from now on.
func (s *Store) Mark(ctx context.Context, name string) (int64, error) {
	done, err := s.db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: s.prefix + marks + name}}})
	return done.Rev, err
}

// Unmark removes a mark that no write relies on any more. It is no error if the
// mark does not exist.
func (s *Store) Unmark(ctx context.Context, name string) error {
	_, err := s.db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: s.prefix + marks + name, Delete: true}}})
	return err
}

// guarded adds to conditions, for each guard, that its mark was not set since.
// A mark that is not set has revision 0.
func (s *Store) guarded(to []kv.Condition, guards []Guard) []kv.Condition {
	for _, g := range guards {
		if s.owned(g.Mark) { // otherwise their revisions cannot be compared
			to = append(to, kv.Condition{Key: s.prefix + marks + g.Mark, Is: kv.ModRevisionAtMost, N: g.Rev})
		}
	}
	return to
}
