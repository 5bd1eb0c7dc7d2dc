// Package request carries the facts of one request through the server: what it requests (Info), its user (User), when
// it arrived, where its time went (Latency), the content of its audit event (Audit), and the warnings for its response.
// The chain puts them into the context; all other code reads them with the accessors here.
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
	consoleKey
	auditKey
	warningsKey
	latencyKey
	watchingKey
	turnKey
)

// WithInfo returns a context with the request's Info.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, infoKey, i)
}

// InfoFrom returns the request's Info, or nil outside of a request.
func InfoFrom(ctx context.Context) *Info {
	i, _ := ctx.Value(infoKey).(*Info)
	return i
}

// HasCBOR says that CBOR is among the media types for the request.
func HasCBOR(ctx context.Context) bool {
	i := InfoFrom(ctx)
	return i != nil && i.CBOR
}

// WithUser returns a context with the request's user.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey, u)
}

// UserFrom returns the request's user, or nil before authentication.
func UserFrom(ctx context.Context) user.Info {
	u, _ := ctx.Value(userKey).(user.Info)
	return u
}

// WithReceived returns a context with the time when the request arrived.
func WithReceived(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, receivedKey, t)
}

// ReceivedFrom returns the time when the request arrived, the zero time outside of a request.
func ReceivedFrom(ctx context.Context) time.Time {
	t, _ := ctx.Value(receivedKey).(time.Time)
	return t
}

// WithConsole returns a context that says that the request was sent to the console's paths.
func WithConsole(ctx context.Context) context.Context {
	return context.WithValue(ctx, consoleKey, true)
}

// OfConsole says that the request was sent to the console's paths, as its page does.
func OfConsole(ctx context.Context) bool {
	is, _ := ctx.Value(consoleKey).(bool)
	return is
}

// Warnings collects the warnings of one request. It is safe for concurrent use.
type Warnings struct {
	mu   sync.Mutex
	list []string // in order of arrival, without duplicates
	seen map[string]bool
}

// WithWarnings returns a context that collects warnings, and the collection.
func WithWarnings(ctx context.Context) (context.Context, *Warnings) {
	w := &Warnings{}
	return context.WithValue(ctx, warningsKey, w), w
}

// AddWarning adds a warning to the response of the context's request. Duplicates are dropped; outside of a request it
// does nothing.
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
