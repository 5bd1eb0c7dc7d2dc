// Package request carries the facts of one request through the server: what is
// asked for (Info), who asks (User), when it arrived, where its time went
// (Latency), what goes into its audit event (Audit) and the warnings that go
// back with the answer. The chain puts them into the context;
// everything below reads them through the accessors here.
package request

import (
	"context"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

type key int

const (
	infoKey key = iota
	userKey
	receivedKey
	auditKey
	warningsKey
	latencyKey
	watchingKey
)

// WithInfo returns a context that carries what the request asks for.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, infoKey, i)
}

// InfoFrom returns what the request asks for, or nil outside of a request.
func InfoFrom(ctx context.Context) *Info {
	i, _ := ctx.Value(infoKey).(*Info)
	return i
}

// WithUser returns a context that carries who is asking.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey, u)
}

// UserFrom returns who is asking, or nil before authentication.
func UserFrom(ctx context.Context) user.Info {
	u, _ := ctx.Value(userKey).(user.Info)
	return u
}

// WithReceived returns a context that carries when the request arrived.
func WithReceived(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, receivedKey, t)
}

// ReceivedFrom returns when the request arrived, the zero time outside of one.
func ReceivedFrom(ctx context.Context) time.Time {
	t, _ := ctx.Value(receivedKey).(time.Time)
	return t
}

// Warnings collects the warnings of one request. It is safe for concurrent use.
type Warnings struct {
	mu   sync.Mutex
	list []string // in order of arrival, without repeats
	seen map[string]bool
}

// WithWarnings returns a context that collects warnings, and the collection.
func WithWarnings(ctx context.Context) (context.Context, *Warnings) {
	w := &Warnings{}
	return context.WithValue(ctx, warningsKey, w), w
}

// AddWarning adds a warning to the answer of the request that ctx belongs to.
// Repeats are dropped; outside of a request it does nothing.
func AddWarning(ctx context.Context, text string) {
	w, _ := ctx.Value(warningsKey).(*Warnings)
	if w == nil || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	w.list = append(w.list, text)
}

// Take returns the warnings collected since the last call.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.list
	w.list = nil
	return l
}
