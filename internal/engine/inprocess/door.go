// Package inprocess gives code in this process access to the server: a Client makes the requests of a user with Go
// objects, and its Transport takes any HTTP request. Neither needs a socket. The requests pass the chain, so they are
// authorized, admitted and audited like any other; only their user is known without credentials. The other way to write
// is catalog.Raw, the server's own bookkeeping, which passes none of that.
package inprocess

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn"
)

type userKey struct{}

// WithUser returns a context whose requests Authenticator authenticates as u.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// Authenticator authenticates requests from a transport of this process as the transport's user. This is safe because
// no remote client can put a value into a request's context.
type Authenticator struct{ Next authn.Authenticator }

// Authenticate is part of authn.Authenticator.
func (a Authenticator) Authenticate(r *http.Request) (user.Info, bool, error) {
	if u, ok := r.Context().Value(userKey{}).(user.Info); ok {
		return u, true, nil
	}
	return a.Next.Authenticate(r)
}

// Inside reports whether a request is one of this process.
func Inside(ctx context.Context) bool {
	_, ok := ctx.Value(userKey{}).(user.Info)
	return ok
}

// Door provides access to a server's chain. It is created before the chain, because parts of the chain use it, and is
// opened when the chain exists.
type Door struct {
	handler atomic.Pointer[http.Handler]
	server  context.Context // ends when requests must be cancelled
	// Measure is called with each answered request of a Client; set before Open. Optional.
	Measure func(method string, code int, took time.Duration)
}

// NewDoor creates a closed door. Requests through it end with ctx.
func NewDoor(ctx context.Context) *Door { return &Door{server: ctx} }

// Open passes requests to a handler from now on.
func (d *Door) Open(h http.Handler) { d.handler.Store(&h) }

// As returns a client for requests of a user; agent is its User-Agent, whose first part is its field manager. Without a
// user the credentials in the request decide.
func (d *Door) As(u user.Info, agent string) *Client { return &Client{door: d, user: u, agent: agent} }
