package authn

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

const (
	// rememberedTokens bounds the number of remembered tokens.
	rememberedTokens = 32 * 1024
	// sharedTimeout bounds a lookup that several requests share.
	sharedTimeout = 30 * time.Second
)

// CacheConfig says how long results of token authentication are remembered.
type CacheConfig struct {
	// Success and Failure are how long a found user and a missing one are remembered; zero: not at all.
	Success, Failure time.Duration
	// Errors remembers errors too, for as long as failures.
	Errors  bool
	Clock   clock.Clock
	Metrics *CacheMetrics
}

// Cached remembers the results of a slow authenticator, which asks another server or verifies signatures on each call.
// Concurrent requests with the same token share one lookup. Tokens are stored only as hashes keyed with a secret of
// this process.
func Cached(a TokenAuthenticator, c CacheConfig) TokenAuthenticator {
	t := &cachedTokens{CacheConfig: c, next: a, answers: cache.NewLRUExpireCacheWithClock(rememberedTokens, c.Clock)}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

type cachedTokens struct {
	CacheConfig
	next    TokenAuthenticator
	answers *cache.LRUExpireCache
	shared  singleflight.Group
	secret  [32]byte
}

type answer struct {
	response *Response
	err      error
}

// AuthenticateToken is part of TokenAuthenticator.
func (t *cachedTokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	began := t.Clock.Now()
	key := t.key(token, audiences)
	if known, ok := t.answers.Get(key); ok {
		t.Metrics.asked("hit", t.Clock.Since(began))
		a := known.(answer)
		return a.response, a.err
	}
	defer func() { t.Metrics.asked("miss", t.Clock.Since(began)) }()
	t.Metrics.active.WithLabelValues("blocked").Inc()
	defer t.Metrics.active.WithLabelValues("blocked").Dec()
	result := t.shared.DoChan(string(key[:]), func() (any, error) {
		if known, ok := t.answers.Get(key); ok {
			return known, nil
		}
		return t.look(ctx, key, token, audiences), nil
	})
	select {
	case r := <-result:
		a := r.Val.(answer)
		return a.response, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look calls the authenticator. Several requests may share the result, so the call does not end with the first request,
// and panics are recovered.
func (t *cachedTokens) look(ctx context.Context, key [32]byte, token string, audiences []string) (a answer) {
	t.Metrics.active.WithLabelValues("in_flight").Inc()
	defer t.Metrics.active.WithLabelValues("in_flight").Dec()
	defer func() {
		if p := recover(); p != nil {
			a = answer{err: fmt.Errorf("authentication failed unexpectedly: %v", p)}
		}
		t.Metrics.fetched(a.err)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedTimeout)
	defer cancel()
	a.response, a.err = t.next.AuthenticateToken(ctx, token, audiences)
	ttl := t.Failure
	if a.response != nil && a.err == nil {
		ttl = t.Success
	}
	if ttl > 0 && (a.err == nil || t.Errors) {
		t.answers.Add(key, a, ttl)
	}
	return a
}

func (t *cachedTokens) key(token string, audiences []string) (key [32]byte) {
	h := hmac.New(sha256.New, t.secret[:])
	var length [4]byte
	// Write each length first, so that different inputs never hash the same bytes.
	write := func(s string) {
		binary.BigEndian.PutUint32(length[:], uint32(len(s)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(s))
	}
	write(token)
	for _, a := range audiences {
		write(a)
	}
	h.Sum(key[:0])
	return key
}

// CacheMetrics measure the cache of tokens.
type CacheMetrics struct {
	requests, fetches *series.CounterVec
	active            *series.GaugeVec
	seconds           *histogram.Vec
}

// NewCacheMetrics registers the metrics, which all caches of a server share.
func NewCacheMetrics(r prometheus.Registerer) *CacheMetrics {
	const prefix = "authentication_token_cache_"
	status := []string{"status"}
	m := &CacheMetrics{
		requests: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "request_total", Help: "Tokens looked up, by hit or miss."}, status),
		fetches:  series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "fetch_total", Help: "Tokens that had to be authenticated, by outcome."}, status),
		active:   series.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "active_fetch_count", Help: "Tokens being authenticated, and requests waiting for it."}, status),
		seconds:  histogram.NewVec(prometheus.HistogramOpts{Name: prefix + "request_duration_seconds", Help: "How long looking up a token took."}, status),
	}
	r.MustRegister(m.requests, m.fetches, m.active, m.seconds)
	return m
}

func (m *CacheMetrics) asked(status string, took time.Duration) {
	m.requests.WithLabelValues(status).Inc()
	m.seconds.WithLabelValues(status).Observe(took.Seconds())
}

func (m *CacheMetrics) fetched(err error) {
	status := "ok"
	if err != nil {
		status = "error"
	}
	m.fetches.WithLabelValues(status).Inc()
}
