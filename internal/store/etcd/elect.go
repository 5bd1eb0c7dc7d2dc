package etcd

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// starting lets one etcd of this process start at a time: until it leads, raftStatus is about the one that came last.
var starting = turn(make(chan struct{}, 1))

type turn chan struct{}

func (t turn) begin(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) end() { <-t }

// candidate is what elect needs of an *etcdserver.EtcdServer.
type candidate interface {
	MemberID() types.ID
	Process(context.Context, *raftpb.Message) error
	StopNotify() <-chan struct{}
}

// elect makes the only member the leader as soon as it has applied again what its log says is committed. It need not
// wait for its election timeout, as there are no others. Elected earlier, raft could give up: it looks through what it
// has yet to apply, while etcd, which is ahead of it, already drops entries of that from memory.
func elect(ctx context.Context, c candidate, status func() (raft.Status, bool)) {
	id := uint64(c.MemberID())
	for {
		if s, ok := status(); ok && s.Applied >= s.GetCommit() {
			// What a leader says who hands over to this member. An error comes from a server that stops.
			_ = c.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &id, To: &id})
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-c.StopNotify():
			return
		case <-ctx.Done():
			return
		}
	}
}

// cutOff waits until the only member leads, and returns an error if its log ends before what its database has applied: a file of the log
// was cut off or lost. etcd would wait for ever, and would take new writes for those that it has applied.
func cutOff(ctx context.Context, c candidate, applied uint64, status func() (raft.Status, bool)) error {
	for {
		if s, ok := status(); ok && s.RaftState == raft.StateLeader {
			// The leader has added an entry of its own, which tells nothing.
			if end := s.Progress[uint64(c.MemberID())].Match; end < applied {
				return fmt.Errorf("the write-ahead log ends at entry %d, the database has applied %d: a part of the log is missing", end, applied)
			}
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-c.StopNotify():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// raftStatus asks raft's own goroutine, through the variable that etcd publishes. What a server answers about itself
// is what etcd has applied, which may be more than what raft knows to be applied.
func raftStatus() (raft.Status, bool) {
	f, _ := expvar.Get("raft.status").(expvar.Func)
	if f == nil {
		return raft.Status{}, false
	}
	s, ok := f.Value().(raft.Status)
	return s, ok
}
