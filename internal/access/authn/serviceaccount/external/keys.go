package external

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	externaljwtv1 "k8s.io/externaljwt/apis/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
)

const (
	// retryEvery is the pause after a failed request for the keys.
	retryEvery = 10 * time.Second
	// findEvery is the least interval of requests caused by unknown key IDs: anyone can send tokens with an invented
	// ID.
	findEvery = time.Second
)

// keys are the signer's keys as last fetched.
type keys struct {
	client  externaljwtv1.ExternalJWTSignerClient
	clock   clock.WithTicker
	metrics *Metrics
	log     *slog.Logger

	current atomic.Pointer[fetched]
	mu      sync.Mutex // held while the keys are fetched
	asked   time.Time  // guarded by mu
}

type fetched struct {
	*serviceaccount.Keys
	at   time.Time     // the signer's timestamp of the data
	next time.Duration // the delay until the next fetch
}

// Keys returns the source of the keys that verify tokens.
func (s *Signer) Keys() serviceaccount.KeySource { return s.keys }

// Current is part of serviceaccount.KeySource.
func (k *keys) Current() *serviceaccount.Keys { return k.current.Load().Keys }

// Find is part of serviceaccount.KeySource.
func (k *keys) Find(ctx context.Context, id string) *serviceaccount.Keys {
	if current := k.Current(); current.Knows(id) {
		return current
	}
	k.mu.Lock()
	recent := k.clock.Since(k.asked) < findEvery
	k.mu.Unlock()
	if recent { // anybody can send tokens with any key ID
		return k.Current()
	}
	return k.ask(ctx, id)
}

// ask returns the keys, and asks the signer for them if they do not have an ID.
func (k *keys) ask(ctx context.Context, id string) *serviceaccount.Keys {
	if current := k.Current(); current.Knows(id) {
		return current
	}
	if err := k.fetch(ctx); err != nil {
		k.log.Error("could not ask the external signer for an unknown key", "error", err)
	}
	return k.Current()
}

// run fetches the keys until ctx ends.
func (k *keys) run(ctx context.Context) {
	pause := k.current.Load().next
	for {
		select {
		case <-k.clock.After(pause):
		case <-ctx.Done():
			return
		}
		if err := k.fetch(ctx); err != nil {
			k.log.Error("could not fetch the external signer's keys; those of before stay", "error", err)
			pause = retryEvery
			continue
		}
		pause = k.current.Load().next
	}
}

// fetch fetches the signer's keys. It replaces the current set only if the new one differs, because verified tokens are
// remembered by key set.
func (k *keys) fetch(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = k.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	r, err := k.client.FetchKeys(ctx, &externaljwtv1.FetchKeysRequest{})
	var f *fetched
	if err == nil {
		f, err = read(r)
	}
	k.metrics.fetched(err, k.clock.Now())
	if err != nil {
		return err
	}
	k.metrics.data(f.at)
	if old := k.current.Load(); old != nil && old.at.Equal(f.at) {
		f.Keys = old.Keys
	}
	k.current.Store(f)
	return nil
}

func read(r *externaljwtv1.FetchKeysResponse) (*fetched, error) {
	switch {
	case r.RefreshHintSeconds <= 0:
		return nil, fmt.Errorf("found invalid refresh hint (%ds)", r.RefreshHintSeconds)
	case len(r.Keys) == 0:
		return nil, errors.New("found no keys")
	}
	if err := r.DataTimestamp.CheckValid(); err != nil {
		return nil, fmt.Errorf("invalid data timestamp: %w", err)
	}
	var all []serviceaccount.Key
	for _, key := range r.Keys {
		if id := key.GetKeyId(); id == "" || len(id) > maxKeyID {
			return nil, fmt.Errorf("found invalid public key id %q", id)
		}
		public, err := x509.ParsePKIXPublicKey(key.Key)
		if err != nil {
			return nil, fmt.Errorf("while parsing external public keys: %w", err)
		}
		all = append(all, serviceaccount.Key{ID: key.KeyId, Public: public, Unpublished: key.ExcludeFromOidcDiscovery})
	}
	set, err := serviceaccount.NewKeySet(int(r.RefreshHintSeconds), all...)
	if err != nil {
		return nil, err
	}
	return &fetched{Keys: set, at: r.DataTimestamp.AsTime(), next: time.Duration(r.RefreshHintSeconds) * time.Second}, nil
}
