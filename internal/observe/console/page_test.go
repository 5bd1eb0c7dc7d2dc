package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPagesArePacked reads each file as browsers do, which take gzip, and as others do. A browser that has a file is not sent it again.
func TestPagesArePacked(t *testing.T) {
	all := Files()
	get := func(path, takes, has string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", takes)
		r.Header.Set("If-None-Match", has)
		w := httptest.NewRecorder()
		all.ServeHTTP(w, r)
		return w.Result()
	}
	sent := 0
	for path, p := range pages() {
		plain, zipped := get(path, "br, gzip;q=0", ""), get(path, "br, gzip ;q=0.5", "")
		text, err := io.ReadAll(plain.Body)
		if err != nil || !bytes.Equal(text, p.text) || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes, %v %v", path, len(text), plain.Header, err)
		}
		body, err := io.ReadAll(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		sent += len(body)
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(path, err)
		}
		if text, err = io.ReadAll(z); err != nil || !bytes.Equal(text, p.text) {
			t.Errorf("%s: unpacked it is another: %v", path, err)
		}
		if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("Vary") != "Accept-Encoding" || zipped.Header.Get("Etag") == plain.Header.Get("Etag") {
			t.Errorf("%s: %v and %v", path, zipped.Header, plain.Header)
		}
		if again := get(path, "gzip, deflate", zipped.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: sent again: %d", path, again.StatusCode)
		}
		if other := get(path, "identity", zipped.Header.Get("Etag")); other.StatusCode != http.StatusOK {
			t.Errorf("%s: who does not take gzip is answered %d", path, other.StatusCode)
		}
	}
	if sent > 150<<10 {
		t.Errorf("the page has %d bytes", sent)
	}
	once := pages()["/console/console.js"]
	if n := testing.AllocsPerRun(10, func() { once.packed() }); n > 0 {
		t.Errorf("%v allocations for a file that is packed", n)
	}
}
