package chain

import (
	"fmt"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Info parses the request info. An invalid path is answered in plain text, because the API to which it belongs is not
// known.
func Info(next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		i, err := request.NewInfo(r)
		if err != nil {
			http.Error(w, fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, err), http.StatusInternalServerError)
			return
		}
		next(w, r.WithContext(request.WithInfo(r.Context(), i)))
	}
}
