//go:build linux

package main

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
//	outer    what was typed: builds, starts init, removes what is left when it has ended
//	init     process 1 of the machine: namespaces of processes, mounts, the network, the host name; waits for orphans
//	cluster  the control plane, the bridge, the specs
//	node     a node: its own network, mounts, host name; containerd, kubelet, kube-proxy
//
// When process 1 ends, the kernel kills every process of the machine, and removes its mounts and network. So nothing is left, however a
// run ends.

// machineNamespaces are those of the machine, nodeNamespaces those that each node has for itself.
const (
	machineNamespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	nodeNamespaces    = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
)

// ending is how long the stages have to end by themselves.
const ending = 45 * time.Second

// outside runs the machine and waits for its end, also if the context ends first. The thread stays this goroutine's: the machine is
// killed when the thread that started it ends.
func outside(ctx context.Context, args []string, started func(pid int)) error {
	runtime.LockOSThread()
	cmd := stage("init", args)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: machineNamespaces, Pdeathsig: syscall.SIGKILL, Setpgid: true}
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

// stage is this program as one of its stages.
func stage(name string, args []string) *exec.Cmd {
	return exec.Command("/proc/self/exe", append([]string{"stage", name}, args...)...)
}

// initialize is process 1 of the machine. It takes in every process whose parent has ended, and ends as the cluster's stage does.
func initialize(args []string) error {
	if err := mounts(); err != nil {
		return err
	}
	if err := run("ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	child, err := os.StartProcess("/proc/self/exe", append([]string{os.Args[0], "stage", "cluster"}, args...),
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
			return fmt.Errorf("waiting for the cluster: %w", err)
		}
		if ended == pid {
			if status.ExitStatus() != 0 {
				return errStage
			}
			return nil
		}
	}
}

// errStage is the error of a stage that has already said what was wrong.
var errStage = errors.New("")

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
