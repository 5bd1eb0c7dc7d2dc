//go:build unix

package recorder

import (
	"syscall"
	"time"
)

// processorTime is how long processors have worked for this process; 0: that is not known.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
