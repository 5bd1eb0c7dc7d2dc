package side

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a started program whose output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// exec starts a program of this side. It is in a process group of its own, so
// that Ctrl-C reaches it by way of Stop, and dies with this process in any case.
func (s *Side) exec(path string, args ...string) error {
	p := &process{log: s.path(filepath.Base(path) + ".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // whoever misses the process says that it has ended
		close(p.done)
	}()
	s.procs = append(s.procs, p)
	return nil
}

// alive is an error if a process of the side has ended.
func (s *Side) alive() error {
	for _, p := range s.procs {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: %v", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
		default:
		}
	}
	return nil
}

// Logs is the end of what each process wrote, for an error message.
func (s *Side) Logs() string {
	var out bytes.Buffer
	for _, p := range s.procs {
		b, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		fmt.Fprintf(&out, "\n--- %s\n%s", filepath.Base(p.log), b[max(0, len(b)-2000):])
	}
	return out.String()
}

// CPU is the processor time that the side's processes have used, in user and
// system mode, by the kernel's accounting. The last few milliseconds of a
// thread that runs at this moment may be missing.
func (s *Side) CPU() (time.Duration, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, p := range s.procs {
		used, err := processorTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// processorTime reads the clock that the kernel has for the processor time of a
// process (clock_getcpuclockid(3)). It tells nanoseconds and counts threads
// that have ended; /proc/PID/stat has the same account in ticks of 10 ms, and
// /proc/PID/task/*/schedstat has it in nanoseconds but forgets those threads.
func processorTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED: user and system time together
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Calm waits, up to a minute, until the side does next to nothing. What it does
// in the background after a start, or after definitions were made, would be
// counted as that of the requests that come next.
func (s *Side) Calm(ctx context.Context) error {
	for range 60 {
		before, err := s.CPU()
		if err != nil {
			return err
		}
		if err := Sleep(ctx, time.Second); err != nil {
			return err
		}
		now, err := s.CPU()
		if err != nil {
			return err
		}
		if now-before <= 50*time.Millisecond {
			return nil
		}
	}
	fmt.Fprintf(os.Stderr, "WARNING: %s: still busy after a minute of rest\n", s.Name)
	return nil
}

// RSS is the side's resident memory in MiB.
func (s *Side) RSS() (float64, error) { return s.memory("VmRSS") }

// Anonymous is the side's resident memory in MiB without files that are mapped: the database and the program, which the kernel can take away.
func (s *Side) Anonymous() (float64, error) { return s.memory("RssAnon") }

// memory adds up a line of the status of each process.
func (s *Side) memory(line string) (float64, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	var kib float64
	for _, p := range s.procs {
		v, err := procField(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), line)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(strings.TrimSuffix(v, " kB"), 64)
		if err != nil {
			return 0, err
		}
		kib += n
	}
	return kib / 1024, nil
}

// Machine says in a line what the sides run on.
func Machine() string {
	cpu, err := procField("/proc/cpuinfo", "model name")
	if err != nil {
		cpu = runtime.GOARCH
	}
	memory, _ := procField("/proc/meminfo", "MemTotal")    // left out if unknown
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // left out if unknown
	return fmt.Sprintf("%d cores (%s), %s of memory, Linux %s, %s", runtime.NumCPU(), cpu, memory, strings.TrimSpace(string(kernel)), runtime.Version())
}

// procField is the value of a line "name: value" of a file below /proc.
func procField(file, name string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, name)
}
