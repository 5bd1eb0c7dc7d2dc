package chain

import (
	"context"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Watches holds the watches being served, so that the shutdown can end them one after the other. Their clients reconnect
// to other servers, which must start a watch for each.
type Watches struct {
	mu      sync.Mutex
	ending  bool                             // guarded by mu
	cancels map[*context.CancelFunc]struct{} // guarded by mu
}

// NewWatches makes an empty set.
func NewWatches() *Watches { return &Watches{cancels: map[*context.CancelFunc]struct{}{}} }

func (s *Watches) add(cancel *context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.cancels[cancel] = struct{}{}
	return true
}

func (s *Watches) remove(cancel *context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cancels, cancel)
}

// End refuses new watches and ends the existing ones, spread evenly over a time.
func (s *Watches) End(over time.Duration, clk clock.Clock) {
	s.mu.Lock()
	s.ending = true
	var all []*context.CancelFunc
	for c := range s.cancels {
		all = append(all, c)
	}
	s.mu.Unlock()
	began := clk.Now()
	for n, cancel := range all {
		due := began.Add(over * time.Duration(n) / time.Duration(len(all)))
		if wait := due.Sub(clk.Now()); wait > 0 {
			<-clk.After(wait)
		}
		(*cancel)()
	}
}

// WatchTermination has watches end when the set is ended.
func WatchTermination(s *Watches, writeError ErrorWriter) Filter {
	if s == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if request.InfoFrom(r.Context()).Verb != "watch" {
				next(w, r)
				return
			}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			if !s.add(&cancel) {
				retry(w.Header(), 1)
				noSniff(w.Header())
				writeError(w, r, apierrors.NewServiceUnavailable("the server is shutting down"))
				return
			}
			defer s.remove(&cancel)
			next(w, r.WithContext(ctx))
		}
	}
}
