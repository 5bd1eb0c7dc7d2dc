//go:build unix

package main

import "golang.org/x/sys/unix"

// replaceBy runs a program by a name in the place of this one.
func replaceBy(program, name string, args, env []string) error {
	return unix.Exec(program, append([]string{name}, args...), env)
}
