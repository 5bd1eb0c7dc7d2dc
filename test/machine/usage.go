//go:build linux

package machine

import (
	"fmt"
	"os"
	"strings"
)

// Usage is what the processes of a server took.
type Usage struct {
	Seconds float64 // of processor time
	MiB     int     // MiB of memory
}

// Used is what the server's processes have taken since they began.
func (p *Plane) Used() Usage {
	var sum Usage
	for _, d := range p.server {
		of := readUsage(d.Cmd.Process.Pid)
		sum.Seconds += of.Seconds
		sum.MiB += of.MiB
	}
	return sum
}

// readUsage reads the usage of a process; of one that has ended it is nothing.
func readUsage(pid int) (u Usage) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	// The name of the program is in parentheses; the 12th and 13th field after it are ticks, of which the kernel tells 100 a second.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) > 12 {
		var user, system float64
		_, _ = fmt.Sscan(fields[11], &user)
		_, _ = fmt.Sscan(fields[12], &system)
		u.Seconds = (user + system) / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u
	}
	for line := range strings.Lines(string(status)) {
		var kB int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kB); err == nil {
			u.MiB = kB >> 10
		}
	}
	return u
}
