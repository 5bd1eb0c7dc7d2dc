package store

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrVoid says that a guard of a write was marked again: what the write relied
// on is no longer so.
var ErrVoid = errors.New("what the write relies on was marked again")

// Guard lets a write happen only if its mark was not set after a revision.
type Guard struct {
	Mark string
	Rev  int64
}

// marks is where marks are kept, below the store's prefix. No resource and no
// group has this name.
const marks = "marks/"

// Mark sets a mark and returns the revision of that. Writes that rely on an
// earlier one and are not stored yet fail from now on.
func (s *Store) Mark(ctx context.Context, name string) (int64, error) {
	r, err := s.db.Client.Put(ctx, s.prefix+marks+name, "")
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// Unmark removes a mark that nobody relies on any more. It need not be there.
func (s *Store) Unmark(ctx context.Context, name string) error {
	_, err := s.db.Client.Delete(ctx, s.prefix+marks+name)
	return err
}

// conditions are what must be so for a write under guards to happen. A mark
// that is not set is of revision 0.
func (s *Store) conditions(guards []Guard) []clientv3.Cmp {
	out := make([]clientv3.Cmp, 0, len(guards))
	for _, g := range guards {
		out = append(out, clientv3.Compare(clientv3.ModRevision(s.prefix+marks+g.Mark), "<", g.Rev+1))
	}
	return out
}
