//go:build unix

package main

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// replaceBy runs a program in the place of this one.
func replaceBy(program string, args, env []string) error {
	return unix.Exec(program, append([]string{filepath.Base(program)}, args...), env)
}
