package chain

import (
	"fmt"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Info reads off what is asked for. A path that makes no sense as one of the
// API is answered in plain text: there is no API yet that could say how.
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
