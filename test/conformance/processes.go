//go:build linux

package main

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

// run runs a command to its end; what it printed is part of the error.
func run(name string, args ...string) error {
	_, err := output(name, args...)
	return err
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// daemon is a program that runs until it is stopped.
type daemon struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start starts a program whose output goes to a log. Ended says so if the program ends.
func start(log string, ended func(name string, err error), cmd *exec.Cmd) (*daemon, error) {
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
	d := &daemon{name: strings.TrimSuffix(filepath.Base(log), ".log"), cmd: cmd, done: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		close(d.done)
		ended(d.name, err)
	}()
	return d, nil
}

// eventually asks until the answer is without error or the time is over, then it returns the last error.
func eventually(whole context.Context, limit time.Duration, what string, ask func(context.Context) error) error {
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
