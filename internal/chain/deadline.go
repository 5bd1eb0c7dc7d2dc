package chain

import (
	"context"
	"errors"
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

// Deadline ends a request's context when its time is up: the client's
// ?timeout=, or limit if that is shorter. What the handler does then is up to
// what it waits for; if it comes back without an answer, there is a 504. refuse
// answers where the timeout asked for is none.
func Deadline(limit time.Duration, clk clock.PassiveClock, refuse, writeError ErrorWriter) Filter {
	if limit == 0 {
		limit = defaultTimeout
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if LongRunning(request.InfoFrom(r.Context())) {
				next.ServeHTTP(w, r)
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
			// By the time that is left, so that a clock passed in counts.
			ctx, cancel := context.WithTimeout(r.Context(), timeout-clk.Since(began))
			defer cancel()
			resp, w := responseOf(w)
			next.ServeHTTP(w, r.WithContext(ctx))
			if !resp.begun && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				writeError(w, r, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0))
			}
		})
	}
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
