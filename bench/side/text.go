package side

import (
	"math/rand/v2"
	"strconv"
)

var settings = [...]string{"cache", "timeout", "retries", "endpoint", "replicas", "region", "storage", "backend", "frontend", "limit", "window",
	"interval", "address", "token", "path", "level", "output", "format", "enabled", "threshold", "period", "bucket", "queue", "worker", "batch",
	"policy", "profile", "version", "cluster", "tenant"}

// Text returns n bytes of text, the same for the same seed: lines of settings, whose words are like those of other texts and whose
// values are not. One text for all objects would be compressed, by who does that, to nothing.
func Text(seed, n int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	b := make([]byte, 0, n+64)
	for len(b) < n {
		b = append(append(b, settings[r.IntN(len(settings))]...), '.')
		b = append(append(b, settings[r.IntN(len(settings))]...), '=')
		b = append(strconv.AppendUint(b, uint64(r.Uint32()>>r.IntN(24)), 16), '\n')
	}
	return string(b[:n])
}
