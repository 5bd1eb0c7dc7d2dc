package chain

import (
	"context"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/request"
)

// InFlight counts the requests that a server must finish before it ends. The zero value is ready for use.
type InFlight struct {
	mu       sync.Mutex
	count    int           // guarded by mu
	draining bool          // guarded by mu
	idle     chan struct{} // closed when draining and count is 0; guarded by mu
}

// enter counts a request in, unless the server is draining.
func (f *InFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	f.count++
	return true
}

func (f *InFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.draining && f.count == 0 {
		close(f.idle)
	}
}

// Drain refuses new requests and waits until the last one has been answered, or until ctx ends. It is called once.
func (f *InFlight) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining, f.idle = true, make(chan struct{})
	if f.count == 0 {
		close(f.idle)
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitGroup counts requests in flight. During the drain it asks new requests to retry, because another server may be there
// by then.
func WaitGroup(inFlight *InFlight, writeError ErrorWriter) Filter {
	if inFlight == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if LongRunning(request.InfoFrom(r.Context())) {
				next(w, r)
				return
			}
			if inFlight.enter() {
				defer inFlight.leave()
			} else if !servedAtTheEnd(r) {
				retry(w.Header(), 1)
				noSniff(w.Header())
				writeError(w, r, apierrors.NewServiceUnavailable("the server is shutting down"))
				return
			}
			next(w, r)
		}
	}
}

// RetryAfter asks clients to retry elsewhere once gone is closed, and closes their connections, so that they reconnect.
func RetryAfter(gone <-chan struct{}, writeError ErrorWriter) Filter {
	if gone == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-gone:
				if !servedAtTheEnd(r) {
					w.Header().Set("Connection", "close")
					retry(w.Header(), 5)
					writeError(w, r, apierrors.NewTooManyRequests("the server is shutting down, please try again later", 5))
					return
				}
			default:
			}
			next(w, r)
		}
	}
}

// servedAtTheEnd reports whether a request is served during the shutdown: monitoring must see the server end, and the
// shutdown itself needs the server's own requests.
func servedAtTheEnd(r *http.Request) bool {
	for _, prefix := range []string{"/readyz", "/livez", "/healthz", "/metrics"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return true
		}
	}
	return strings.HasPrefix(r.UserAgent(), "kube-apiserver/")
}

// Now returns the number of requests being served.
func (f *InFlight) Now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}
