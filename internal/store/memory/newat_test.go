package memory

import (
	"errors"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// A log that begins at a later revision knows nothing of what was before.
func TestNewAt(t *testing.T) {
	d := NewAt(clock.RealClock{}, 1000)
	ctx := t.Context()
	if _, err := d.Range(ctx, kv.Range{Key: "a", Rev: 900}, func(kv.KeyValue) bool { return true }); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("read before the beginning: %v", err)
	}
	if err := d.Watch(ctx, kv.Watch{Key: "a", From: 900}, func([]kv.Event, int64) error { return nil }); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("watch from before the beginning: %v", err)
	}
	done, err := d.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: "a", Value: []byte("1")}}})
	if err != nil || done.Rev != 1001 {
		t.Errorf("the first write is revision %d, %v", done.Rev, err)
	}
}
