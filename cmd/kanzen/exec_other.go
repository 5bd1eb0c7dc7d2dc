//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// replaceBy runs a program and waits for its end.
func replaceBy(program string, args, env []string) error {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	return cmd.Run()
}
