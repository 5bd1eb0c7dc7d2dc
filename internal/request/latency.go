package request

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Layer is a part of the server in which a request spends time.
type Layer int

// The layers, in the order in which they are reported.
const (
	LayerTransform Layer = iota
	LayerStorage
	LayerSerialize
	LayerWrite
	LayerMutatingWebhook
	LayerValidatingWebhook
	LayerDecode
	LayerQueue
	LayerAuthentication
	LayerAuthorization
	LayerImpersonation
	layers
)

// String returns the name of a layer in audit annotations and the access log.
func (l Layer) String() string {
	return [layers]string{"transform-response-object", "etcd", "serialize-response-object", "response-write",
		"mutating-webhook", "validating-webhook", "decode-response-object", "apf-queue-wait",
		"authentication", "authorization", "impersonation"}[l]
}

// longest reports whether the longest of several visits to a layer counts, because they may be concurrent; otherwise
// their sum counts.
func (l Layer) longest() bool {
	return l == LayerValidatingWebhook || l == LayerAuthorization || l == LayerQueue
}

// Latency measures how long a request was in each layer. It is safe for concurrent use.
type Latency struct {
	clock clock.PassiveClock
	spent [layers]atomic.Int64 // nanoseconds
	first [layers]atomic.Int64 // when the first visit began, in nanoseconds since 1970; 0: that is not known
	began time.Time            // start of the current filter; used only by the request's goroutine
	trail trail
}

// Enter records when a request enters a filter; Leave returns how long it was there. The second Leave of a filter, on
// the way back, returns first as false. Only the goroutine that serves the request may call them.
func (l *Latency) Enter(now time.Time) { l.began = now }

// Leave returns the time since Enter; first is false if it was called before for this filter.
func (l *Latency) Leave(now time.Time) (d time.Duration, first bool) {
	if l.began.IsZero() {
		return 0, false
	}
	d, l.began = now.Sub(l.began), time.Time{}
	return d, true
}

// WithLatency returns a context that counts time, and the counter.
func WithLatency(ctx context.Context, clk clock.PassiveClock) (context.Context, *Latency) {
	l := &Latency{clock: clk}
	return context.WithValue(ctx, latencyKey, l), l
}

// LatencyFrom returns the counter of the context's request, nil outside of one.
func LatencyFrom(ctx context.Context) *Latency {
	l, _ := ctx.Value(latencyKey).(*Latency)
	return l
}

// Begin returns the time when a layer begins its work on the context's request, for End; the zero time outside of a
// request.
func Begin(ctx context.Context) time.Time {
	if l := LatencyFrom(ctx); l != nil {
		return l.clock.Now()
	}
	return time.Time{}
}

// End adds the time since Begin to a layer.
func End(ctx context.Context, layer Layer, began time.Time) {
	if !began.IsZero() {
		Visit(ctx, layer, began, LatencyFrom(ctx).clock.Since(began))
	}
}

// Visit is Latency.Visit of the context's request; outside of a request it does nothing.
func Visit(ctx context.Context, layer Layer, began time.Time, d time.Duration) {
	if l := LatencyFrom(ctx); l != nil {
		l.Visit(layer, began, d)
	}
}

// Spend adds time to a layer of the context's request; outside of a request it does nothing.
func Spend(ctx context.Context, layer Layer, d time.Duration) {
	if l := LatencyFrom(ctx); l != nil {
		l.Spend(layer, d)
	}
}

// Visit adds the time of a visit to a layer that began at a time.
func (l *Latency) Visit(layer Layer, began time.Time, d time.Duration) {
	l.first[layer].CompareAndSwap(0, began.UnixNano())
	l.Spend(layer, d)
}

// First returns when the first visit to a layer began; the zero time if that is not known.
func (l *Latency) First(layer Layer) time.Time {
	if at := l.first[layer].Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Spend adds time to a layer.
func (l *Latency) Spend(layer Layer, d time.Duration) {
	if !layer.longest() {
		l.spent[layer].Add(int64(d))
		return
	}
	for {
		old := l.spent[layer].Load()
		if int64(d) <= old || l.spent[layer].CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// Of returns the time spent in a layer, 0 on a nil counter.
func (l *Latency) Of(layer Layer) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(l.spent[layer].Load())
}

// Each calls f for each layer in which time was spent.
func (l *Latency) Each(f func(layer Layer, d time.Duration)) {
	if l == nil {
		return
	}
	for layer := range layers {
		if d := l.Of(layer); d > 0 {
			f(layer, d)
		}
	}
}

// Storage is what a store tells and asks about the requests that it works for (store.Caller).
type Storage struct{}

// Waited adds time to the storage layer of the context's request.
func (Storage) Waited(ctx context.Context, since time.Time, took time.Duration) {
	Visit(ctx, LayerStorage, since, took)
}

// AuditID is AuditIDFrom.
func (Storage) AuditID(ctx context.Context) string { return AuditIDFrom(ctx) }
