package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// maxKeys bounds how many keys a Seldom remembers. Beyond it the oldest is forgotten, and may be logged again early.
const maxKeys = 1024

// Seldom logs what may happen very often: for each key once in a while. The next line for a key says how many were left
// out since the last one.
type Seldom struct {
	log   *slog.Logger
	clock clock.PassiveClock
	every time.Duration

	mu   sync.Mutex
	said map[string]*said // guarded by mu
}

// said is what was logged for a key.
type said struct {
	last    time.Time
	leftOut int
}

// NewSeldom returns a Seldom that logs each key at most once in a period.
func NewSeldom(log *slog.Logger, clk clock.PassiveClock, every time.Duration) *Seldom {
	return &Seldom{log: log, clock: clk, every: every, said: map[string]*said{}}
}

// Warn logs a warning for a key, unless that was done a short while ago.
func (s *Seldom) Warn(key, msg string, args ...any) {
	leftOut, ok := s.due(key)
	if !ok {
		return
	}
	if leftOut > 0 {
		args = append(args, "alsoBefore", leftOut)
	}
	s.log.Log(context.Background(), slog.LevelWarn, msg, args...)
}

// Forget makes the next warning for a key due at once, as when the state that it warned of has ended.
func (s *Seldom) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.said, key)
}

func (s *Seldom) due(key string) (leftOut int, ok bool) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.said[key]; k != nil {
		if now.Sub(k.last) < s.every {
			k.leftOut++
			return 0, false
		}
		leftOut, k.last, k.leftOut = k.leftOut, now, 0
		return leftOut, true
	}
	if len(s.said) >= maxKeys {
		s.dropOldest()
	}
	s.said[key] = &said{last: now}
	return 0, true
}

func (s *Seldom) dropOldest() {
	oldest := ""
	for k, v := range s.said {
		if oldest == "" || v.last.Before(s.said[oldest].last) {
			oldest = k
		}
	}
	delete(s.said, oldest)
}
