package console

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
)

// A code is short-lived, as it stands in a link; it is used by the next thing its owner does. A session ends some time after
// the page was closed, and after some hours in any case: whoever has lost rights or credentials meanwhile keeps the
// session's user until then.
const (
	codeLife    = 2 * time.Minute
	sessionLife = 4 * time.Hour
	sessionIdle = 30 * time.Minute
)

// Bounds of what is remembered: of one user, of the service accounts of one namespace together, and of all. Administrators
// have a part for themselves, so that nobody who is none of them can take their place.
const (
	maxCodes          = 4
	maxSessions       = 8
	perNamespace      = 4 // times what one user may have
	maxOthers         = 900
	maxAdministrators = 100
	maxAll            = maxOthers + maxAdministrators
)

// secrets are the hashes of random texts, each of which stands for a user.
//
// There is always room for another one. In a part that is full, the least recently used secret of the class that has most
// gives way, so whoever makes many takes the place of his own, and not that of others.
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
	class      class
	made, used time.Time
}

// class is who shares a bound: a user, or all service accounts of a namespace, since who may make one of them may make
// many. Administrators are members of system:masters.
type class struct {
	administrator bool
	namespace     bool // name is that of a namespace
	name          string
}

func classOf(u user.Info) class {
	c := class{administrator: slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup), name: u.GetName()}
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		c.namespace, c.name = true, namespace
	}
	return c
}

func newSecrets(clk clock.PassiveClock, random io.Reader, life, idle time.Duration, perUser int) *secrets {
	return &secrets{clock: clk, random: random, life: life, idle: idle, perUser: perUser, all: map[[sha256.Size]byte]*holder{}}
}

// issue makes a secret for a user.
func (s *secrets) issue(u user.Info) (string, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(s.random, raw); err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	h := &holder{user: u, class: classOf(u), made: now, used: now}
	s.makeRoom(h)
	s.all[sha256.Sum256([]byte(text))] = h
	return text, nil
}

// makeRoom drops what is over, and what must give way to a new secret. mu is held.
func (s *secrets) makeRoom(h *holder) {
	maps.DeleteFunc(s.all, func(_ [sha256.Size]byte, old *holder) bool { return s.over(old, h.made) })
	sizes, ofUser, inPart := map[class]int{h.class: 1}, 1, 1
	for _, old := range s.all {
		if old.class.administrator != h.class.administrator {
			continue
		}
		inPart++
		sizes[old.class]++
		if old.user.GetName() == h.user.GetName() {
			ofUser++
		}
	}
	switch {
	case ofUser > s.perUser:
		s.dropOldest(func(old *holder) bool { return old.class == h.class && old.user.GetName() == h.user.GetName() })
	case sizes[h.class] > s.perUser*perNamespace:
		s.dropOldest(func(old *holder) bool { return old.class == h.class })
	case inPart > partOf(h.class):
		most := slices.Max(slices.Collect(maps.Values(sizes)))
		s.dropOldest(func(old *holder) bool {
			return old.class.administrator == h.class.administrator && sizes[old.class] == most
		})
	}
}

// partOf returns how many secrets fit into the part of a class.
func partOf(c class) int {
	if c.administrator {
		return maxAdministrators
	}
	return maxOthers
}

// dropOldest drops the least recently used of some secrets. mu is held.
func (s *secrets) dropOldest(of func(*holder) bool) {
	var at [sha256.Size]byte
	var oldest *holder
	for hash, h := range s.all {
		if of(h) && (oldest == nil || h.used.Before(oldest.used)) {
			at, oldest = hash, h
		}
	}
	delete(s.all, at)
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
