package chain

import (
	"net/http"
	"strings"
)

// HSTS tells browsers to come back by TLS only. Without directives it says nothing.
func HSTS(directives []string) Filter {
	if len(directives) == 0 {
		return nil
	}
	return setHeader("Strict-Transport-Security", strings.Join(directives, "; "))
}

// CacheControl keeps answers out of shared caches: what one user may see
// another may not. A handler may say otherwise.
func CacheControl() Filter {
	return setHeader("Cache-Control", "no-cache, private")
}

func setHeader(name, value string) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next(w, r)
		}
	}
}
