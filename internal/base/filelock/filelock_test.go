package filelock

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	for _, c := range []struct {
		first, second Mode
		excludes      bool
	}{
		{Exclusive, Exclusive, true},
		{Exclusive, Shared, true},
		{Shared, Exclusive, true},
		{Shared, Shared, false},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		unlock, err := Lock(path, c.first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Lock(path, c.second)
		if errors.Is(err, ErrLocked) != c.excludes || err != nil && !c.excludes {
			t.Errorf("%v after %v: %v", c.second, c.first, err)
		}
		if err == nil {
			_ = second()
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		again, err := Lock(path, Exclusive)
		if err != nil {
			t.Fatalf("after the lock was given back: %v", err)
		}
		_ = again()
	}
	if _, err := Lock(filepath.Join(t.TempDir(), "none", "lock"), Shared); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
