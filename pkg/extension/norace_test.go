//go:build !race

package extension_test

const underRace = false
