package console

import (
	"context"
	"testing"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

type nobodyMay struct{}

func (nobodyMay) Authorize(context.Context, *authz.Attributes) (authz.Decision, string, error) {
	return authz.NoOpinion, "", nil
}

// TestAuthorizer checks that only what tells nothing is for everybody: what a request for data stands for is not, also if it is no resource.
func TestAuthorizer(t *testing.T) {
	for path, want := range map[string]authz.Decision{
		"/console": authz.Allow, "/console/": authz.Allow, "/console/data/whoami": authz.Allow, "/api": authz.Allow, "/apis": authz.Allow,
		"/kanzen/space": authz.NoOpinion, "/metrics": authz.NoOpinion, "/api/": authz.NoOpinion, "/consoles": authz.NoOpinion,
	} {
		ctx := request.WithInfo(context.WithValue(t.Context(), askedKey{}, &asked{purpose: forData}), &request.Info{Path: path})
		if got, _, _ := (Authorizer{nobodyMay{}}).Authorize(ctx, &authz.Attributes{Path: path}); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
