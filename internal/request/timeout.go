package request

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TimedOut reports whether the deadline of a request has passed. If the client has gone the request is canceled, which
// does not count.
func TimedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// errTimeout is the error of a request that was not finished by its deadline.
var errTimeout = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)

// TimeoutError returns the error of a request that was not finished by its deadline.
func TimeoutError() error { return errTimeout }

// IsTimeoutError reports whether err is the error of a request that was not finished by its deadline.
func IsTimeoutError(err error) bool { return errors.Is(err, errTimeout) }

// Unfinished returns the error of a request whose context has ended, whatever that made fail; nil while it goes on. If the
// client has gone nobody reads the answer, but metrics and the audit log have its code: as in kube-apiserver it is that of a
// request that took too long, and not an error of the server.
func Unfinished(ctx context.Context) error {
	switch {
	case TimedOut(ctx):
		return TimeoutError()
	case ctx.Err() != nil:
		return apierrors.NewTimeoutError("request did not complete within requested timeout - "+ctx.Err().Error(), 0)
	}
	return nil
}

// FailureLevel returns the level at which to log a failure of a request, normally level: after the client has gone
// everything fails, and the server is not to blame.
func FailureLevel(ctx context.Context, level slog.Level) slog.Level {
	if errors.Is(ctx.Err(), context.Canceled) {
		return slog.LevelDebug
	}
	return level
}
