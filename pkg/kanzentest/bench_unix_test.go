//go:build unix

package kanzentest_test

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is what this process has used: other programs on the machine hardly change it.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
