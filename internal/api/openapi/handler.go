package openapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/klauspost/compress/gzip"
	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/proto"
)

// Handler serves the current Set under /openapi/.
type Handler struct {
	// Set returns the current documents.
	Set func() *Set
	log *slog.Logger
}

// NewHandler returns a handler that serves what set returns.
func NewHandler(set func() *Set, log *slog.Logger) *Handler { return &Handler{Set: set, log: log} }

// ServeHTTP serves /openapi/v2, /openapi/v3 and the paths below the latter. It ignores the method.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path, below := strings.CutPrefix(r.URL.Path, "/openapi/v3/"); {
	case below:
		h.serveDocument(w, r, path)
	case r.URL.Path == "/openapi/v3":
		h.serveIndex(w, r)
	case r.URL.Path == "/openapi/v2":
		h.serveV2(w, r)
	default:
		http.NotFound(w, r)
	}
}

// serveIndex lists the v3 documents. It has no media type of its own (clients expect text/plain), and no modification
// time: a definition may be added within the second of a client's last request.
func (h *Handler) serveIndex(w http.ResponseWriter, r *http.Request) {
	index := h.Set().v3Index()
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha256.Sum256(index))))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(index))
}

func (h *Handler) serveDocument(w http.ResponseWriter, r *http.Request, path string) {
	d, ok := h.Set().Document(path)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Add("Vary", "Accept")
	mediaType, ok := negotiate(r, "com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Etag", strconv.Quote(d.Hash))
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != d.Hash {
			http.Redirect(w, r, d.url(), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC1123))
	}
	if matches(r, d.Hash) { // before decompressing anything
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := d.bytes(mediaType != jsonType)
	if err != nil {
		h.fail(w, "OpenAPI document", err, "path", path)
		return
	}
	http.ServeContent(w, r, "", d.Modified, bytes.NewReader(body))
}

// bytes returns the document in JSON or in protobuf.
func (d *Document) bytes(protobuf bool) ([]byte, error) {
	if protobuf && d.Proto != nil {
		return d.Proto()
	}
	doc, err := d.JSON()
	if err != nil || !protobuf {
		return doc, err
	}
	parsed, err := Parsed(doc, openapiv3.ParseDocument)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}

func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request) {
	s := h.Set()
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Add("Vary", "Accept")
	mediaType, ok := negotiate(r, "com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2@v1.0+protobuf")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Etag", strconv.Quote(s.v2Hash))
	if matches(r, s.v2Hash) {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := s.v2Gzip(mediaType != jsonType)
	if body == nil {
		h.fail(w, "OpenAPI v2 document", err)
		return
	}
	if err != nil {
		h.log.Warn("parts of the OpenAPI v2 document are missing", "err", err)
	}
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
	} else if body, err = gunzip(body); err != nil {
		h.fail(w, "OpenAPI v2 document", err)
		return
	}
	http.ServeContent(w, r, "", s.at, bytes.NewReader(body))
}

func (h *Handler) fail(w http.ResponseWriter, what string, err error, args ...any) {
	h.log.Error(what, append(args, "err", err)...)
	for _, k := range []string{"Etag", "Cache-Control", "Expires", "Content-Type"} {
		w.Header().Del(k)
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

const jsonType = "application/json"

// negotiate selects JSON or a protobuf subtype; old is its former name.
func negotiate(r *http.Request, protobuf, old string) (mediaType string, ok bool) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return jsonType, true
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "*", "json":
			return jsonType, true
		case protobuf, old:
			return "application/" + protobuf, true
		}
	}
	return "", false
}

// matches reports whether the client's cached document has this hash.
func matches(r *http.Request, hash string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == strconv.Quote(hash) {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether the document may be sent compressed.
func acceptsGzip(r *http.Request) bool {
	if r.Method == http.MethodHead || r.Header.Get("Range") != "" {
		return false
	}
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) != "gzip" {
			continue
		}
		_, q, weighted := strings.Cut(params, "=")
		weight, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !weighted || errors.Is(err, strconv.ErrSyntax) || weight > 0
	}
	return false
}

func gzipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
