//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// A run is several stages of one program, each in namespaces of its own:
//
//	outer   what was typed: builds, starts process 1 of the machine, removes what is left when it has ended
//	init    process 1 of the machine: namespaces of processes, mounts, the network, the host name; waits for orphans
//	others  what the program does in the machine, and its nodes: each has its own network, mounts, host name
//
// When process 1 ends, the kernel kills every process of the machine, and removes its mounts and network. So nothing is left, however a
// run ends.

// The namespaces of the machine, and those that each node has for itself. A node that has its processes for itself too is
// Namespaces, and ends with its process 1.
const (
	NodeNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	Namespaces     = NodeNamespaces | syscall.CLONE_NEWPID
)

// ending is how long the stages have to end by themselves.
const ending = 45 * time.Second

// Outside runs the machine and waits for its end, also if the context ends first. The thread stays this goroutine's: the machine is
// killed when the thread that started it ends.
func Outside(ctx context.Context, args []string, started func(pid int)) error {
	runtime.LockOSThread()
	cmd := Stage("init", args)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: Namespaces, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("making the namespaces of a machine (this needs root): %w", err)
	}
	started(cmd.Process.Pid)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(ending):
			_ = cmd.Process.Kill()
		}
	}()
	return cmd.Wait()
}

// Stage is this program as one of its stages.
func Stage(name string, args []string) *exec.Cmd {
	return exec.Command("/proc/self/exe", append([]string{"stage", name}, args...)...)
}

// Initialize is process 1 of the machine, or of a node. It takes in every process whose parent has ended, and ends as the stage does that
// it starts.
func Initialize(stage string, args []string) error {
	if err := mounts(); err != nil {
		return err
	}
	if err := Run("ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	child, err := os.StartProcess("/proc/self/exe", append([]string{os.Args[0], "stage", stage}, args...),
		&os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: os.Environ()})
	if err != nil {
		return err
	}
	pid := child.Pid
	go func() {
		for range signals {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}()
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the stage %s: %w", stage, err)
		}
		if ended == pid {
			if status.ExitStatus() != 0 {
				return ErrSaid
			}
			return nil
		}
	}
}

// Main is main of a program that runs in stages. It does not return.
func Main(run func(args []string) error) {
	if err := run(os.Args[1:]); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, text)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// Chosen returns the stage that arguments name, and its flags: those of the first stage, which is the outer one.
func Chosen(args []string) (name string, flags []string) {
	if len(args) > 1 && args[0] == "stage" {
		return args[1], args[2:]
	}
	return "outer", args
}

// ErrSaid is the error of a stage that has already said what was wrong.
var ErrSaid = errors.New("")

// mounts makes the mounts of this process its own, and shows its processes in /proc.
func mounts() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}
