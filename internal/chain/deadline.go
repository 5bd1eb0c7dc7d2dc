package chain

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// defaultTimeout is that of --request-timeout.
const defaultTimeout = time.Minute

// Deadline ends a request when its time is up: the client's ?timeout=, or limit if that is shorter. Then its context
// ends, and so do reads of its body and writes to the client. If the handler returns without an answer, the client gets a
// 504; an answer that has begun is cut off. refuse answers requests with an invalid timeout.
//
// Long-running requests have no deadline. A watch ends when its client reads nothing for the time of limit.
func Deadline(limit time.Duration, clk clock.PassiveClock, refuse, writeError ErrorWriter) Filter {
	if limit == 0 {
		limit = defaultTimeout
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if i := request.InfoFrom(r.Context()); LongRunning(i) {
				w = longRunning(w, i, limit)
				next(w, r)
				return
			}
			timeout, err := timeoutOf(r, limit)
			if err != nil {
				refuse(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			began := request.ReceivedFrom(r.Context())
			if began.IsZero() {
				began = clk.Now()
			}
			// A timeout and not a deadline, because clk may be another clock than the context's.
			ctx, cancel := context.WithTimeout(r.Context(), timeout-clk.Since(began))
			defer cancel()
			resp, w := responseOf(w)
			r = r.WithContext(ctx)
			e := newExpiry(r, resp)
			defer context.AfterFunc(ctx, e.interrupt)()
			defer e.end()
			next(w, r)
			if begun := resp.begun.Load(); request.TimedOut(ctx) && (!begun || e.late) {
				e.interrupt() // if that has not been done yet: what answers the timeout has its Grace, and no more
				if !begun {
					writeError(w, r, request.TimeoutError())
				}
			}
			if e.end() {
				// What is there of the answer must not be taken for all of it.
				panic(http.ErrAbortHandler)
			}
		}
	}
}

// longRunning takes the deadlines of the HTTP server off the connection of a long-running request. The writer returned
// bounds how long each write of a watch or stream may take.
func longRunning(w http.ResponseWriter, i *request.Info, limit time.Duration) http.ResponseWriter {
	resp, w := responseOf(w)
	control := http.NewResponseController(resp.ResponseWriter)
	_ = control.SetReadDeadline(time.Time{}) // not supported in process, where there is none
	_ = control.SetWriteDeadline(time.Time{})
	if i.Verb == "watch" || i.Page.Stream {
		resp.writes = newProgress(resp.ResponseWriter, limit)
	}
	return w
}

// timeoutOf is how long a request may take.
func timeoutOf(r *http.Request, limit time.Duration) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return limit, nil // without parsing the query of every request
	}
	value := r.URL.Query().Get("timeout")
	if value == "" {
		return limit, nil
	}
	asked, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	if asked > 0 && asked < limit {
		return asked, nil
	}
	return limit, nil
}
