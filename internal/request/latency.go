package request

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Layer is a part of the server in which a request spends time.
type Layer int

// The layers that are told apart, in the order in which they are reported.
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

// String is the name of a layer in audit annotations and the access log.
func (l Layer) String() string {
	return [layers]string{"transform-response-object", "etcd", "serialize-response-object", "response-write",
		"mutating-webhook", "validating-webhook", "decode-response-object", "apf-queue-wait",
		"authentication", "authorization", "impersonation"}[l]
}

// longest says that of several visits to a layer the longest counts, because
// they may be at the same time; otherwise it is their sum.
func (l Layer) longest() bool {
	return l == LayerValidatingWebhook || l == LayerAuthorization || l == LayerQueue
}

// Latency counts how long a request was in each layer. It is safe for
// concurrent use.
type Latency struct {
	clock clock.PassiveClock
	spent [layers]atomic.Int64 // nanoseconds
	began time.Time            // of the filter the request is in; the request's goroutine only
}

// Enter notes when a request came to a filter, Leave how long it was there.
// The second Leave of a filter, on the way back, tells nothing. Both are for
// the goroutine that serves the request.
func (l *Latency) Enter(now time.Time) { l.began = now }

// Leave is the counterpart of Enter.
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

// Begin is when a layer begins its work on the request that ctx belongs to, to
// be handed to End; the zero time outside of a request.
func Begin(ctx context.Context) time.Time {
	if l := LatencyFrom(ctx); l != nil {
		return l.clock.Now()
	}
	return time.Time{}
}

// End counts the time since Begin as spent in a layer.
func End(ctx context.Context, layer Layer, began time.Time) {
	if !began.IsZero() {
		Spend(ctx, layer, LatencyFrom(ctx).clock.Since(began))
	}
}

// Spend counts time spent in a layer for the request that ctx belongs to;
// outside of a request it does nothing.
func Spend(ctx context.Context, layer Layer, d time.Duration) {
	l := LatencyFrom(ctx)
	if l == nil {
		return
	}
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

// Each calls f with the layers in which time was spent.
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
