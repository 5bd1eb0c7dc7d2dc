package chain

import (
	"net/http"
	"regexp"
	"slices"
)

// CORS lets scripts of the allowed origins use the API with the user's
// credentials. Without origins it does nothing.
func CORS(origins []*regexp.Regexp) Filter {
	if len(origins) == 0 {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			origin := r.Header.Get("Origin")
			if origin == "" || !slices.ContainsFunc(origins, func(re *regexp.Regexp) bool { return re.MatchString(origin) }) {
				next(w, r)
				return
			}
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since")
			h.Set("Access-Control-Expose-Headers", "Date")
			h.Set("Access-Control-Allow-Credentials", "true")
			if r.Method == http.MethodOptions {
				// The browser only asks whether it may.
				w.WriteHeader(http.StatusNoContent)
				return
			}
			next(w, r)
		}
	}
}
