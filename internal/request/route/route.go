// Package route says which requests a resource takes: its Declared set is what
// discovery lists and what every request is held against before it is served.
package route

import "net/http"

// NotFound answers for paths that nobody owns, as upstream does: with a text.
func NotFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found\n"))
}
