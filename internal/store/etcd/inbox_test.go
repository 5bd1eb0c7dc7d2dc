package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestInbox fills an inbox: it takes no more until what it has is taken, and tells its end after the last event.
func TestInbox(t *testing.T) {
	b := newInbox()
	events := func(rev int64) []*mvccpb.Event {
		return []*mvccpb.Event{{Kv: &mvccpb.KeyValue{Key: []byte("a"), Value: make([]byte, inboxBytes/2), ModRevision: rev}}}
	}
	for rev := range int64(2) {
		if err := b.put(t.Context(), events(rev+1), 100); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := b.put(ctx, events(3), 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a full one takes more: %v", err)
	}
	put := make(chan error, 1)
	go func() { put <- b.put(t.Context(), events(3), 100) }()
	<-b.news
	if got, rev, err := b.take(nil); len(got) != 2 || rev != 2 || err != nil {
		t.Errorf("it had %d events up to %d, %v", len(got), rev, err)
	}
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	if err := b.put(t.Context(), nil, 7); err != nil { // the progress
		t.Fatal(err)
	}
	end := errors.New("the end")
	b.end(end)
	if got, rev, err := b.take(nil); len(got) != 1 || rev != 7 || !errors.Is(err, end) {
		t.Errorf("it had %d events up to %d, %v", len(got), rev, err)
	}
}
