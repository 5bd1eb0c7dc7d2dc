package console

import (
	"bytes"
	"compress/gzip"
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
	"strconv"
	"strings"
	"sync"
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
	// packed is the text as gzip has it. It is made once, for the first browser that asks: most servers are never looked at.
	packed func() []byte
}

// files are those of the page, by their paths.
type files map[string]page

// pages has them. They are the same for all consoles of a process.
var pages = sync.OnceValue(func() files {
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
		p := page{text: text, kind: kindOf(e.Name()), etag: fmt.Sprintf("%x", sha256.Sum256(text)), packed: sync.OnceValue(func() []byte { return packed(text) })}
		if e.Name() == "index.html" {
			out[Prefix+"/"] = p
			continue
		}
		out[Prefix+"/"+e.Name()] = p
	}
	return out
})

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
	tag, zipped := `"`+p.etag+`"`, takesGzip(r)
	if zipped {
		tag = `"` + p.etag + `-gzip"` // other bytes are another representation
	}
	h.Set("Etag", tag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", p.kind)
	text := p.text
	if zipped {
		text = p.packed()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(text) // the client may have closed the connection
	}
}

// packed is a text as gzip has it, as small as it can be.
func packed(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // there is that level
	}
	_, _ = z.Write(text) // a buffer takes all
	_ = z.Close()
	return out.Bytes()
}

// takesGzip says that a client takes gzip. One that names it with a quality of 0 does not.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), ";")
		if strings.TrimSpace(name) == "gzip" {
			q, named := strings.CutPrefix(strings.TrimSpace(quality), "q=")
			value, err := strconv.ParseFloat(q, 64)
			return !named || err == nil && value > 0
		}
	}
	return false
}
