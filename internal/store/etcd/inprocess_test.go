package etcd

import (
	"fmt"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestCloseUnderWatches closes a log whose watches are being sent what was written, with what was there before: etcd
// reads that from its files, which Close must not take away meanwhile.
func TestCloseUnderWatches(t *testing.T) {
	for range 5 {
		closeUnderWatches(t)
	}
}

func closeUnderWatches(t *testing.T) {
	db, err := OpenEmbedded(t.Context(), Embedded{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := db.Client.Put(t.Context(), fmt.Sprint("a", i%10), "b"); err != nil {
			t.Fatal(err)
		}
	}
	const watches = 20
	began := make(chan bool, watches)
	ended := make(chan bool, watches)
	for range watches {
		go func() {
			_ = db.Watch(t.Context(), kv.Watch{Key: "a", Prefix: true, From: 1, Prev: true}, func([]kv.Event, int64) error {
				select {
				case began <- true:
				default:
				}
				return nil
			})
			ended <- true
		}()
	}
	<-began
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range watches {
		<-ended
	}
}
