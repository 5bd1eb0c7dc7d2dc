package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

type alone struct{ messages []*raftpb.Message }

func (a *alone) MemberID() types.ID          { return 7 }
func (a *alone) StopNotify() <-chan struct{} { return nil }
func (a *alone) Process(_ context.Context, m *raftpb.Message) error {
	a.messages = append(a.messages, m)
	return nil
}

// A member is told to elect itself once, and not before raft has applied what is committed.
func TestElect(t *testing.T) {
	a, asked := &alone{}, uint64(0)
	elect(t.Context(), a, func() (raft.Status, bool) {
		if len(a.messages) > 0 {
			t.Error("asked again after the election")
		}
		var s raft.Status
		commit := uint64(3)
		s.Applied, s.HardState = asked, &raftpb.HardState{Commit: &commit}
		asked++
		return s, true
	})
	if asked != 4 || len(a.messages) != 1 || a.messages[0].GetType() != raftpb.MsgTimeoutNow || a.messages[0].GetTo() != 7 {
		t.Errorf("after %d questions: %v", asked, a.messages)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	elect(ctx, a, func() (raft.Status, bool) { return raft.Status{}, false })
	if len(a.messages) != 1 {
		t.Error("elected after the end")
	}
}

// Etcd drops entries of its log from memory after every hundred that it applies, also while it starts: with more than
// that in the log, starts on busy processors.
func TestRestarts(t *testing.T) {
	dir := t.TempDir()
	const keys = 230
	db := open(t, Embedded{Dir: dir, UnsafeNoFsync: true})
	for i := range keys {
		if err := write(t.Context(), db, fmt.Sprint("/k", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	var end atomic.Bool
	defer end.Store(true)
	for range 4 {
		go func() {
			for !end.Load() {
			}
		}()
	}
	for n := range 20 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, Embedded{Dir: dir, UnsafeNoFsync: true})
		if head, err := db.Head(t.Context()); err != nil || head != keys+1 {
			t.Fatalf("start %d: revision %d, %v; want %d", n, head, err, keys+1)
		}
	}
}
