package console

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"sync/atomic"
)

// The files of the page are made of what is in web/console.
//
//go:generate go -C ../../../web run .
//go:embed page
var embedded embed.FS

// page is a file of the page.
type page struct {
	text       []byte
	kind, etag string
}

// files are those of the page, by their paths.
type files map[string]page

func pages() files {
	out := files{}
	entries, err := fs.ReadDir(embedded, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		text, err := embedded.ReadFile("page/" + e.Name())
		if err != nil {
			panic(err)
		}
		p := page{text: text, kind: kindOf(e.Name()), etag: fmt.Sprintf(`"%x"`, sha256.Sum256(text))}
		if e.Name() == "index.html" {
			out[Prefix+"/"] = p
			continue
		}
		out[Prefix+"/"+e.Name()] = p
	}
	return out
}

// Paths are those of the page and its files, which a browser needs before it can sign anybody in.
func Paths() []string {
	return slices.AppendSeq([]string{Prefix}, maps.Keys(pages()))
}

// maxStrangers is how many files a connection is good for that nobody has signed in on: those of the page, and some more.
const maxStrangers = 8

type connectionKey struct{}

// WithConnection makes the context of a connection, in which the files that were served on it are counted.
func WithConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(atomic.Int32))
}

// mayGoOn says whether a connection may serve another file of the page to strangers. They get one request per HTTP/2
// connection elsewhere, since a flood of requests would cost them too little. A browser asks for all files at once, which
// it cannot do on a connection that ends.
func mayGoOn(ctx context.Context) bool {
	served, ok := ctx.Value(connectionKey{}).(*atomic.Int32)
	return ok && served.Add(1) < maxStrangers
}

// kindOf returns the media type of a file. The table of the machine is not asked: it may say anything.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(".bin")
}

// ServeHTTP serves what has passed the chain below Prefix.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case codesPath:
		c.serveCode(w, r)
		return
	case sessionPath:
		c.serveSession(w, r)
		return
	case whoPath:
		if only(w, r, http.MethodGet) {
			c.serveWho(w, r)
		}
		return
	case Prefix:
		http.Redirect(w, r, Prefix+"/", http.StatusPermanentRedirect)
		return
	}
	c.pages.serve(w, r)
}

// Files serves the page where no server stands behind it. Its caller answers what it asks below Prefix + "/data/".
func Files() http.Handler {
	all := pages()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		all.serve(w, r)
	})
}

// serve answers a request that reads a file.
func (all files) serve(w http.ResponseWriter, r *http.Request) {
	p, ok := all[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodHead && !only(w, r, http.MethodGet) {
		return
	}
	h := w.Header()
	if mayGoOn(r.Context()) {
		h.Del("Connection")
	}
	h.Set("Etag", p.etag)
	h.Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == p.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", p.kind)
	if r.Method == http.MethodGet {
		_, _ = w.Write(p.text) // the client may have closed the connection
	}
}
