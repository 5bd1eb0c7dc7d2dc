//go:build race

package extension_test

// The race detector has pools throw away a fourth of what they are given, so what is allocated says nothing.
const underRace = true
