// Package hostile puts requests to a server that are made to cost it much, and
// holds what each takes, in processor time, memory and time, to a bound.
//
//	go test ./hostile                       kanzen, against the bounds
//	go test ./hostile -peer -v              kube-apiserver too, without bounds
//	go test ./hostile -run TestCost/yaml    some rows
//
// With -table FILE the figures are written as a table. KANZEN names a binary
// that is not to be built first. docs/limits.md says what may be expected.
package hostile
