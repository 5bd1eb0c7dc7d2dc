package console

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
)

// A code is short-lived, as it stands in a link; it is used by the next thing its owner does. A session ends some time after
// the page was closed, and after some hours in any case: whoever has lost rights or credentials meanwhile keeps the
// session's user until then.
const (
	codeLife    = 2 * time.Minute
	sessionLife = 4 * time.Hour
	sessionIdle = 30 * time.Minute
)

// Bounds of what is remembered: of one user, and of all.
const (
	maxCodes    = 4
	maxSessions = 8
	maxAll      = 1000
)

// errTooMany is the answer if others have too many codes or sessions.
var errTooMany = errors.New("too many users are signing in to the console")

// secrets are the hashes of random texts, each of which stands for a user.
type secrets struct {
	clock      clock.PassiveClock
	random     io.Reader
	life, idle time.Duration
	perUser    int

	mu  sync.Mutex
	all map[[sha256.Size]byte]*holder // guarded by mu
}

type holder struct {
	user       user.Info
	made, used time.Time
}

func newSecrets(clk clock.PassiveClock, random io.Reader, life, idle time.Duration, perUser int) *secrets {
	return &secrets{clock: clk, random: random, life: life, idle: idle, perUser: perUser, all: map[[sha256.Size]byte]*holder{}}
}

// issue makes a secret for a user. The user's oldest one gives way to it if there are too many.
func (s *secrets) issue(u user.Info) (string, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(s.random, raw); err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	count, oldest := 0, [sha256.Size]byte{}
	for hash, h := range s.all {
		if s.over(h, now) {
			delete(s.all, hash)
			continue
		}
		if h.user.GetName() == u.GetName() {
			if count++; count == 1 || h.made.Before(s.all[oldest].made) {
				oldest = hash
			}
		}
	}
	if count >= s.perUser {
		delete(s.all, oldest)
	} else if len(s.all) >= maxAll {
		return "", errTooMany
	}
	s.all[sha256.Sum256([]byte(text))] = &holder{user: u, made: now, used: now}
	return text, nil
}

func (s *secrets) over(h *holder, now time.Time) bool {
	return now.Sub(h.made) >= s.life || now.Sub(h.used) >= s.idle
}

// find returns the user of a secret, nil if there is none. It is found by its hash, so that the time this takes tells
// nothing of other secrets.
func (s *secrets) find(text string) user.Info { return s.look(text, false) }

// take is find for the last time: nobody finds the secret again.
func (s *secrets) take(text string) user.Info { return s.look(text, true) }

func (s *secrets) look(text string, last bool) user.Info {
	if text == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	h, now := s.all[hash], s.clock.Now()
	if h == nil {
		return nil
	}
	over := s.over(h, now)
	if last || over {
		delete(s.all, hash)
	}
	if over {
		return nil
	}
	h.used = now
	return h.user
}
