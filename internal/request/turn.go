package request

import "context"

// Turn is a request's share of what a server does at a time.
type Turn interface {
	// Leave gives it back, while the request waits for another server.
	Leave()
	// Return waits until there is one again, or the request is over.
	Return()
}

// WithTurn returns the context of a request that has a turn.
func WithTurn(ctx context.Context, t Turn) context.Context { return context.WithValue(ctx, turnKey, t) }

// Elsewhere says that a request waits for another server, which may ask this one meanwhile. The func that it returns ends that.
func Elsewhere(ctx context.Context) (back func()) {
	t, ok := ctx.Value(turnKey).(Turn)
	if !ok {
		return func() {}
	}
	t.Leave()
	return t.Return
}
