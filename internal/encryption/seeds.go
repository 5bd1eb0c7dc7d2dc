package encryption

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// Bounds of what is kept of a plugin. Each start of a server makes a seed, as does each new key of the plugin.
const (
	seedsKept   = 4096
	failedKept  = 256
	failedHolds = 3 * time.Second
)

// seeds are the sources of keys that a plugin has decrypted, by their envelopes. A failure is kept for a short while
// too: thousands of values have the same seed, and each would wait for a plugin that does not answer.
type seeds struct {
	name    string
	plugin  *plugin
	clock   clock.PassiveClock
	metrics *metrics
	kept    *lru.Cache // *source by envelope.tail
	failed  *lru.Cache // *failure by envelope.tail
	calls   singleflight.Group
}

// source decrypts the values of an envelope.
type source struct {
	provider
	keyHash string
}

type failure struct {
	err   error
	until time.Time
}

func newSeeds(name string, p *plugin, clk clock.PassiveClock, m *metrics) *seeds {
	return &seeds{name: name, plugin: p, clock: clk, metrics: m, kept: lru.New(seedsKept), failed: lru.New(failedKept)}
}

// get returns the source of an envelope, from the plugin if need be. All who wait for the same one share a call.
func (s *seeds) get(ctx context.Context, e *envelope) (*source, error) {
	key := string(e.tail())
	if found, ok := s.kept.Get(key); ok {
		return found.(*source), nil
	}
	if f, ok := s.failed.Get(key); ok && s.clock.Now().Before(f.(*failure).until) {
		return nil, f.(*failure).err
	}
	shared := context.WithoutCancel(ctx) // the plugin's timeout bounds it
	result := s.calls.DoChan(key, func() (any, error) {
		made, err := s.decrypt(shared, e)
		if err != nil {
			s.failed.Add(key, &failure{err, s.clock.Now().Add(failedHolds)})
			return nil, err
		}
		s.keep(key, made)
		return made, nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*source), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put keeps the seed of an envelope that this server has made.
func (s *seeds) put(e *envelope, made seed) {
	s.keep(string(e.tail()), &source{made, hashOf(e.keyID)})
}

func (s *seeds) keep(key string, made *source) {
	s.kept.Add(key, made)
	s.metrics.seedsKept.WithLabelValues(s.name).Set(float64(s.kept.Len()))
}

// decrypt asks the plugin.
func (s *seeds) decrypt(ctx context.Context, e *envelope) (*source, error) {
	s.metrics.cacheMisses.Inc()
	plain, err := s.plugin.decrypt(ctx, uuid.NewString(), e)
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	made := &source{keyHash: hashOf(e.keyID)}
	if e.sourceType == sourceSeed {
		made.provider, err = newSeed(plain)
	} else {
		made.provider, err = newGCM(plain)
	}
	return made, err
}
