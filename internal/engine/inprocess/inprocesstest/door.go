// Package inprocesstest makes clients of endpoints without a chain, for tests.
package inprocesstest

import (
	"context"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Client returns a client whose requests go to the endpoint that find returns for a resource. Requests end with ctx.
func Client(ctx context.Context, agent string, find func(resource string) http.Handler) *inprocess.Client {
	door := inprocess.NewDoor(ctx)
	door.Open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.NewInfo(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		find(info.Resource).ServeHTTP(w, r.WithContext(request.WithInfo(r.Context(), info)))
	}))
	return door.As(nil, agent)
}
