package chain

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Recover answers 500 when a handler panics. An answer that has begun is cut off instead, so that the client does not take
// it for complete; a handler that panics with http.ErrAbortHandler asks for that.
func Recover(log *slog.Logger, onPanic func(r *http.Request), writeError ErrorWriter) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			resp, w := responseOf(w)
			defer func() {
				fault := recover()
				if fault == nil {
					return
				}
				if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(http.ErrAbortHandler)
				}
				log.ErrorContext(r.Context(), "Panic in a request", "panic", fmt.Sprint(fault),
					"method", r.Method, "path", r.URL.Path, "auditID", request.AuditIDFrom(r.Context()), "stack", string(debug.Stack()))
				if onPanic != nil {
					onPanic(r)
				}
				if resp.begun.Load() {
					panic(http.ErrAbortHandler)
				}
				for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Etag"} {
					w.Header().Del(name)
				}
				writeError(w, r, apierrors.NewInternalError(errors.New("this request made the server panic; its log has the details")))
			}()
			next(w, r)
		}
	}
}
