package encryption

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
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
//
// A plugin that hangs holds up nobody twice: once a caller's patience has ended, unknown seeds are asked for in the
// background, and callers are refused at once until the plugin has answered.
type seeds struct {
	name    string
	plugin  decrypter
	cipher  func(sourceType, []byte) (provider, error) // what a source decrypts with
	clock   clock.PassiveClock
	metrics *metrics
	kept    *lru.Cache // *source by envelope.tail; nil: none is kept
	slots   int        // how many kept has, if that is a setting (version 1)
	failed  *lru.Cache // *failure by envelope.tail
	calls   singleflight.Group
	hangs   atomic.Bool
}

// source decrypts the values of an envelope.
type source struct {
	provider
	key     string // in seeds
	keyHash string
	proven  atomic.Bool // it has decrypted a value, so it is the right one
}

type failure struct {
	err   error
	until time.Time
}

// decrypter is what seeds need of a plugin.
type decrypter interface {
	decrypt(ctx context.Context, uid string, e *envelope) ([]byte, error)
}

// newSeeds makes the sources of a plugin, of which some are kept; none if that is negative.
func newSeeds(name string, p decrypter, keep int, clk clock.PassiveClock, m *metrics) *seeds {
	s := &seeds{name: name, plugin: p, cipher: cipherOf, clock: clk, metrics: m, failed: lru.New(failedKept)}
	if keep > 0 {
		s.kept = lru.New(keep)
	}
	return s
}

func cipherOf(t sourceType, source []byte) (provider, error) {
	if t == sourceSeed {
		return newSeed(source)
	}
	return newGCM(source)
}

// get returns the source of an envelope, from the plugin if need be. All who wait for the same one share a call.
func (s *seeds) get(ctx context.Context, e *envelope) (*source, error) {
	key := string(e.tail())
	if found, err := s.known(key); found != nil || err != nil {
		return found, err
	}
	shared := context.WithoutCancel(ctx) // the plugin's timeout bounds it
	result := s.calls.DoChan(key, func() (any, error) {
		if found, err := s.known(key); found != nil || err != nil { // another call has ended since
			return found, err
		}
		made, err := s.decrypt(shared, e)
		s.hangs.Store(isDeadline(err))
		if err != nil {
			s.failed.Add(key, &failure{err, s.clock.Now().Add(failedHolds)})
			return nil, err
		}
		made.key = key
		s.keep(made)
		return made, nil
	})
	if s.hangs.Load() {
		return nil, errHangs
	}
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*source), nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.hangs.Store(true)
			return nil, errHangs
		}
		return nil, ctx.Err()
	}
}

// known returns a source that is kept, or why there is none; neither if the plugin is to be asked.
func (s *seeds) known(key string) (*source, error) {
	if s.kept != nil {
		if found, ok := s.kept.Get(key); ok {
			return found.(*source), nil
		}
	}
	if f, ok := s.failed.Get(key); ok && s.clock.Now().Before(f.(*failure).until) {
		return nil, f.(*failure).err
	}
	return nil, nil
}

// errHangs is why a value cannot be read whose seed is not known yet.
var errHangs = errors.New("failed to decrypt DEK, error: the KMS plugin does not answer")

// isDeadline says that a call has ended because the plugin did not answer.
func isDeadline(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || codeOf(err) == codes.DeadlineExceeded.String())
}

// wrong drops a source that could not decrypt what was encrypted with it, unless it could decrypt something before: then the
// value is damaged. The plugin may give the right one later.
func (s *seeds) wrong(bad *source, err error) {
	if !bad.proven.Load() {
		s.failed.Add(bad.key, &failure{err, s.clock.Now().Add(failedHolds)})
		if s.kept != nil {
			s.kept.Remove(bad.key)
		}
	}
}

// put keeps what an envelope holds that this server has made.
func (s *seeds) put(e *envelope, made provider) {
	own := &source{provider: made, key: string(e.tail()), keyHash: hashOf(e.keyID)}
	own.proven.Store(true)
	s.keep(own)
}

func (s *seeds) keep(made *source) {
	if s.kept == nil {
		return
	}
	s.kept.Add(made.key, made)
	s.metrics.seedsKept.WithLabelValues(s.name).Set(float64(s.kept.Len()))
	if s.slots > 0 {
		s.metrics.keysFilled.Set(float64(s.kept.Len()) / float64(s.slots))
	}
}

// decrypt asks the plugin.
func (s *seeds) decrypt(ctx context.Context, e *envelope) (*source, error) {
	s.metrics.cacheMisses.Inc()
	plain, err := s.plugin.decrypt(ctx, uuid.NewString(), e)
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	made := &source{keyHash: hashOf(e.keyID)}
	made.provider, err = s.cipher(e.sourceType, plain)
	return made, err
}
