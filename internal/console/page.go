package console

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

//go:embed page
var files embed.FS

// page is a file of the page.
type page struct {
	text       []byte
	kind, etag string
}

// pages returns the files by their paths.
func pages() map[string]page {
	out := map[string]page{}
	entries, err := fs.ReadDir(files, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		text, err := files.ReadFile("page/" + e.Name())
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

// kindOf returns the media type of a file. The table of the machine is not asked: it may say anything.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
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
		if c.only(w, r, http.MethodGet) {
			c.serveWho(w, r)
		}
		return
	case Prefix:
		http.Redirect(w, r, Prefix+"/", http.StatusPermanentRedirect)
		return
	}
	p, ok := c.pages[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		c.only(w, r, http.MethodGet)
		return
	}
	h := w.Header()
	// Strangers get one request per connection, since a flood of them would cost them too little. The files are in memory,
	// and a browser asks for all of them at once: it cannot do so on connections that end.
	h.Del("Connection")
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
