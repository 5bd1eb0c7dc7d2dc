package etcd

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// inbox has what a watch was told and has not delivered yet. Who receives does not wait for who delivers, up to a bound: etcd keeps
// little for a watch that is slow, and then reads what it has missed from its files, while everybody's writes wait.
type inbox struct {
	news  chan struct{} // has a token if there is something to take
	taken chan struct{} // has a token if something was taken

	mu     sync.Mutex
	events []kv.Event
	bytes  int   // of the events
	rev    int64 // they are complete up to it; 0: nothing has come
	err    error // why no more come
}

// inboxBytes bounds what an inbox has before the last answer that it takes.
const inboxBytes = 4 << 20

func newInbox() *inbox {
	return &inbox{news: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds an answer of etcd. While the inbox is full it waits.
func (b *inbox) put(ctx context.Context, events []*mvccpb.Event, rev int64) error {
	for !b.add(events, rev) {
		select {
		case <-b.taken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	signal(b.news)
	return nil
}

// add is put if there is room. rev is the revision of a notification of progress: that of events may be ahead of them.
func (b *inbox) add(events []*mvccpb.Event, rev int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes >= inboxBytes {
		return false
	}
	for _, e := range events {
		out := kv.Event{KeyValue: keyValue(e.Kv), Deleted: e.Type == mvccpb.Event_DELETE}
		if e.PrevKv != nil {
			out.Prev = keyValue(e.PrevKv)
		}
		b.events = append(b.events, out)
		b.bytes += eventBytes + len(out.Key) + len(out.Value) + len(out.Prev.Value)
		rev = out.ModRevision
	}
	b.rev = max(b.rev, rev)
	return true
}

// eventBytes is what an event takes beside its key and values.
const eventBytes = 500

// end says that no more comes.
func (b *inbox) end(err error) {
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	signal(b.news)
}

// take takes out what has come, and leaves a slice for what will. After the last of it there may be an error.
func (b *inbox) take(spare []kv.Event) (events []kv.Event, rev int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, rev = b.events, b.rev
	b.events, b.bytes, b.rev = spare, 0, 0
	signal(b.taken)
	return events, rev, b.err
}
