package recorder

import (
	"syscall"
	"time"
)

// processorTime is how long processors have worked for this process; 0: that is not known.
func processorTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var begun, ended, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &begun, &ended, &kernel, &user); err != nil {
		return 0
	}
	return ticks(kernel) + ticks(user)
}

// ticks is a time in units of 100 ns.
func ticks(f syscall.Filetime) time.Duration {
	return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
}
