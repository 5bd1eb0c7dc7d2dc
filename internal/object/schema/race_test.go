//go:build race

package schema

// The race detector makes expressions and patterns some fifty times slower.
const underRace = true
