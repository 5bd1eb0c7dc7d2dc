package server

import (
	"encoding/json"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/request"
)

// root is the handler after the chain. It serves resources through the catalog, and the few paths that are not resources by the
// table of pages (pages.go).
type root struct {
	catalog   *catalog.Live
	discovery documents
	openapi   http.Handler
	health    *debug.Health
	metrics   http.Handler
	slis      http.Handler
	issuer    *serviceaccount.Discovery // nil: the issuer cannot be discovered
	profiling bool
	flow      *flowcontrol.Controller // nil: requests are only counted
	zpages    *debug.Zpages
	version   version.Build
	verbosity *debug.Verbosity
	rewriter  *encryption.Rewriter
	snapshots *snapshot.Handler                                  // nil: this control plane serves none
	space     *snapshot.SpaceHandler                             // as snapshots
	console   *console.Console                                   // nil: there is none
	forks     *forks.Forks                                       // nil: there are none
	exports   func(w http.ResponseWriter, r *http.Request) error // nil: there are none
	transfers func(w http.ResponseWriter, r *http.Request) bool  // nil: there are no planes

	pages pages // made of all of these
}

// begin makes the table of pages.
func (h *root) begin() *root {
	h.pages = newPages(h.table())
	return h
}

func (h *root) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		if h.transfers == nil || !h.transfers(w, r) {
			h.catalog.ServeHTTP(w, r)
		}
		return
	}
	h.pages.find(r.URL.Path).ServeHTTP(w, r)
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
