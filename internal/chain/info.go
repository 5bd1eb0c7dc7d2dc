package chain

import (
	"fmt"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Info reads off what is asked for. A path that makes no sense as one of the
// API is answered in plain text: there is no API yet that could say how.
func Info() Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i, err := request.NewInfo(r)
			if err != nil {
				http.Error(w, fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, err), http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r.WithContext(request.WithInfo(r.Context(), i)))
		})
	}
}
