package snapshot

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Path is where a server streams a snapshot. It is no resource.
const Path = "/kanzen/snapshot"

// Handler serves backups of the embedded etcd, with everything that is in it. The verb is "post", which rules that let
// someone read all paths do not grant.
type Handler struct {
	from func(ctx context.Context, at string) (io.ReadCloser, error)
	log  *slog.Logger
	// busy holds a token for each snapshot under way: etcd keeps old pages until a snapshot is read.
	busy chan struct{}
}

// maxSnapshots is how many snapshots are streamed at a time.
const maxSnapshots = 2

// NewHandler makes a Handler of what streams a backup: of now, or of the moment that the parameter "at" of the request names.
func NewHandler(from func(ctx context.Context, at string) (io.ReadCloser, error), log *slog.Logger) *Handler {
	return &Handler{from: from, log: log, busy: make(chan struct{}, maxSnapshots)}
}

// ServeHTTP streams a snapshot. An answer that breaks off lacks its checksum.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "snapshot"}, r.Method))
		return
	}
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	default:
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewTooManyRequests("other snapshots are under way", 5))
		return
	}
	from, err := h.from(r.Context(), r.URL.Query().Get("at"))
	if err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
		return
	}
	defer from.Close()
	// The first bytes are awaited, so that an etcd that gives none is told as an error.
	first := make([]byte, 64<<10)
	n, err := io.ReadAtLeast(from, first, 1)
	if err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if _, err = w.Write(first[:n]); err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, from, first)
	}
	if err != nil {
		h.log.Info("a snapshot broke off", "error", err)
		panic(http.ErrAbortHandler) // what is there must not be taken for all of it
	}
}
