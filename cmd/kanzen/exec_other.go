//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// replaceBy runs a program by a name and waits for its end.
func replaceBy(program, name string, args, env []string) error {
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	return cmd.Run()
}
