package tree

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// failing is files of which no table can be made.
type failing struct {
	vfs.FS
	with  atomic.Pointer[error] // nil: it can
	tried atomic.Int64
}

func (f *failing) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.with.Load(); err != nil && strings.HasSuffix(name, ".sst") {
		f.tried.Add(1)
		return nil, *err
	}
	return f.FS.Create(name, category)
}

// TestFailedFlushes has flushes fail: the tree tries again, but not all the time, and is broken only if its files are gone.
func TestFailedFlushes(t *testing.T) {
	t.Parallel()
	for _, why := range []error{fs.ErrNotExist, errors.New("no space left on device")} {
		files, broken := &failing{FS: vfs.NewMem()}, NewBreakage()
		db, err := pebble.Open("db", &pebble.Options{FS: files, EventListener: broken.Listener(), Logger: Logger{slog.New(slog.DiscardHandler), broken}})
		if err != nil {
			t.Fatal(err)
		}
		files.with.Store(&why)
		if err := db.Set([]byte("a"), []byte("b"), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		flushed, err := db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		for files.tried.Load() < 3 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took < againAfter {
			t.Errorf("%v: three flushes failed within %v", why, took)
		}
		if gone := why == fs.ErrNotExist; (broken.Err() != nil) != gone {
			t.Errorf("%v: broken by %v", why, broken.Err())
		}
		files.with.Store(nil)
		<-flushed
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
