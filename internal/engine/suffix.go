package engine

import "crypto/rand"

// suffixLetters are those of generated names: no vowels, that no words arise,
// and nothing that is read as something else.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// NameSuffix makes the random end of a generated name. See Config.NameSuffix.
func NameSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	for n := range b {
		b[n] = suffixLetters[int(b[n])%len(suffixLetters)]
	}
	return string(b[:])
}
