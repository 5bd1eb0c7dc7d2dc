package chain

import (
	"net/http"
	"slices"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// MaxInFlight bounds the number of requests served at the same time, separately for reads and writes. Zero means no bound.
// The bounds do not hold for system:masters.
func MaxInFlight(reading, writing int) Filter {
	if reading == 0 && writing == 0 {
		return nil
	}
	read, write := &room{size: int64(reading)}, &room{size: int64(writing)}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			i := request.InfoFrom(r.Context())
			if LongRunning(i) {
				next(w, r)
				return
			}
			room := write
			if i.Verb == "get" || i.Verb == "list" {
				room = read
			}
			switch {
			case room.size == 0:
			case room.enter():
				defer room.leave()
			case !isMaster(r):
				retry(w.Header(), 1)
				http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
				return
			}
			next(w, r)
		}
	}
}

// room has a number of places.
type room struct {
	size  int64
	taken atomic.Int64
}

func (r *room) enter() bool {
	if r.taken.Add(1) <= r.size {
		return true
	}
	r.taken.Add(-1)
	return false
}

func (r *room) leave() { r.taken.Add(-1) }

func isMaster(r *http.Request) bool {
	u := request.UserFrom(r.Context())
	return u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
