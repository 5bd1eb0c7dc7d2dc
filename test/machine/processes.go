//go:build linux

package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Run runs a command to its end; what it printed is part of the error.
func Run(name string, args ...string) error {
	_, err := Output(name, args...)
	return err
}

// Output runs a command to its end and returns what it printed.
func Output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// Daemon is a program that runs until it is stopped.
type Daemon struct {
	Name string
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended
}

// Start starts a program whose output goes to a log. Ended says so if the program ends.
func Start(log string, ended func(name string, err error), cmd *exec.Cmd) (*Daemon, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &Daemon{Name: strings.TrimSuffix(filepath.Base(log), ".log"), Cmd: cmd, Done: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		close(d.Done)
		ended(d.Name, err)
	}()
	return d, nil
}

// Eventually asks until the answer is without error or the time is over, then it returns the last error.
func Eventually(whole context.Context, limit time.Duration, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(whole, limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if whole.Err() != nil {
				return context.Cause(whole)
			}
			return fmt.Errorf("%s, not within %v: %w", what, limit, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
