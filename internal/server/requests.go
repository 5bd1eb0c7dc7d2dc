package server

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// authorizeWith returns a func that checks whether the context's user may do
// something that the request itself was not authorized for.
func authorizeWith(a authz.Authorizer) func(ctx context.Context, i *request.Info) error {
	return func(ctx context.Context, i *request.Info) error {
		at := authz.ForRequest(request.UserFrom(ctx), i)
		decision, reason, err := a.Authorize(ctx, at)
		if decision == authz.Allow {
			return nil
		}
		if err != nil {
			return err
		}
		return authz.Forbidden(at, reason)
	}
}

// suffixLetters are the letters of generated names. There are no vowels, so
// that no words arise, and no letters or digits that are easily confused.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func nameSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	for n := range b {
		b[n] = suffixLetters[int(b[n])%len(suffixLetters)]
	}
	return string(b[:])
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	gv := schema.GroupVersion{}
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		gv = schema.GroupVersion{Group: i.Group, Version: i.Version}
	}
	engine.WriteError(w, r, gv, err)
}
