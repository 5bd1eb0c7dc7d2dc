package request

import (
	"context"
	"errors"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TimedOut says whether the deadline of a request has passed. A request whose
// client has gone is canceled, which is something else.
func TimedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// TimeoutError is the answer to a request that was not done by its deadline.
func TimeoutError() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// FailureLevel is the level at which to log that something failed for a
// request, where it is level for others: when the client goes away, everything
// fails, and the server is not to blame.
func FailureLevel(ctx context.Context, level slog.Level) slog.Level {
	if errors.Is(ctx.Err(), context.Canceled) {
		return slog.LevelDebug
	}
	return level
}
