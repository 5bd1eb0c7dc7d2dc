package chain

import (
	"net/http"
	"strings"
)

// HSTS tells browsers to use TLS only. Without directives there is no filter.
func HSTS(directives []string) Filter {
	if len(directives) == 0 {
		return nil
	}
	return setHeader("Strict-Transport-Security", strings.Join(directives, "; "))
}

// CacheControl keeps answers out of shared caches, because users may see different objects. A handler may overwrite the
// header.
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
