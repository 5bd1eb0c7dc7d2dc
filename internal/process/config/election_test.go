package config

import (
	"testing"
	"time"
)

func TestElectionTimes(t *testing.T) {
	for want, times := range map[int][3]time.Duration{0: {3, 2, 1}, 1: {2, 2, 1}, 2: {1, 1, 1}} {
		c := &Config{Plane: Plane{CoordinatedLease: times[0], CoordinatedRenew: times[1], CoordinatedRetry: times[2]}}
		got := 0
		c.validateElection(func(string, string, ...any) { got++ })
		if got != want {
			t.Errorf("%v: %d faults, want %d", times, got, want)
		}
	}
}
