// Package test holds kanzen against clients nobody here wrote: kubectl,
// client-go's informers, controller-runtime, and the manifests of well-known
// projects; and against what happens to a process: signals, kill -9, a port or
// a directory that is taken.
//
// The binaries are built once a run. KANZEN and KUBECTL name ones that are
// there already.
package test
