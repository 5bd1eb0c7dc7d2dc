package chain

import (
	"fmt"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// Info parses the request info. page tells about paths that are no resources; nil: they are like other requests. An invalid
// path is answered in plain text, because the API to which it belongs is not known. cbor says that the server has CBOR; on are the
// extensions whose parameters are read.
func Info(page func(path string) request.Page, cbor bool, on extensions.Set) Filter {
	visible, namespaces := on.Has(extensions.Visible), on.Has(extensions.Namespaces)
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			i, err := request.NewInfo(r)
			if err != nil {
				http.Error(w, fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, err), http.StatusInternalServerError)
				return
			}
			i.CBOR = cbor
			if visible || namespaces {
				i.Narrow(r, visible, namespaces)
			}
			if !i.IsResource && page != nil {
				i.Page = page(i.Path)
			}
			next(w, r.WithContext(request.WithInfo(r.Context(), i)))
		}
	}
}
