package kubelet

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// answer is an answer of 10.1.2.3:80/dir/page, asked for as HOST/proxy/dir/page.
func answer(t *testing.T, header http.Header, body io.Reader) (*links, *http.Response) {
	t.Helper()
	l := newLinks(parse(t, "/proxy/dir/page"), parse(t, "http://10.1.2.3:80/dir/page"))
	req := &http.Request{Method: http.MethodGet, URL: parse(t, "http://10.1.2.3:80/dir/page"), Host: "front"}
	return l, &http.Response{Header: header, Body: io.NopCloser(body), ContentLength: 1, Request: req}
}

func TestLinks(t *testing.T) {
	for link, want := range map[string]string{
		"/a": "/proxy/a", "/a/": "/proxy/a/", "/": "/proxy/", "a": "a", "": "", "#x": "#x", "/proxy/a": "/proxy/a", "?q": "?q",
		"http://10.1.2.3:80/a?b=c#d": "/proxy/a?b=c#d", "http://front/a": "http://front/proxy/a", "https://other/a": "https://other/a",
		"//other/a": "//other/a", "/../../a": "/a", "javascript:x": "javascript:x",
	} {
		l, resp := answer(t, http.Header{"Location": {link}}, strings.NewReader(""))
		if link == "" {
			continue // no header
		}
		if err := l.rewrite(resp); err != nil || resp.Header.Get("Location") != want {
			t.Errorf("%q: %q, %v", link, resp.Header.Get("Location"), err)
		}
	}
	l, resp := answer(t, http.Header{"Location": {"://"}}, strings.NewReader(""))
	if err := l.rewrite(resp); err == nil {
		t.Error("a Location that is none")
	}
}

const (
	before = `<!doctype html><A Href='/a' class=x>&lt;</A><img src="b"><img alt='1<2' src=/c /><p title=/d>/e</p><script src="/f">"<a href='/g'>"</script><!-- <a href="/h"> --><a href="http://%zz/">z</a>`
	after  = `<!doctype html><a href="/proxy/a" class="x">&lt;</A><img src="b"><img alt="1&lt;2" src="/proxy/c"/><p title=/d>/e</p><script src="/proxy/f">"<a href='/g'>"</script><!-- <a href="/h"> --><a href="http://%zz/">z</a>`
)

func TestHTML(t *testing.T) {
	const want = after
	squeeze := func(w io.WriteCloser, b *bytes.Buffer) io.Reader {
		_, _ = io.WriteString(w, before)
		_ = w.Close()
		return b
	}
	for encoding, open := range map[string]struct {
		body  func() io.Reader
		plain func(r io.Reader) io.Reader
	}{
		"": {func() io.Reader { return strings.NewReader(before) }, func(r io.Reader) io.Reader { return r }},
		"gzip": {func() io.Reader { b := &bytes.Buffer{}; return squeeze(gzip.NewWriter(b), b) }, func(r io.Reader) io.Reader {
			z, err := gzip.NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}},
		"deflate": {func() io.Reader {
			b := &bytes.Buffer{}
			w, _ := flate.NewWriter(b, 1)
			return squeeze(w, b)
		}, func(r io.Reader) io.Reader { return flate.NewReader(r) }},
	} {
		l, resp := answer(t, http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Content-Encoding": {encoding}, "Content-Length": {"1"}}, open.body())
		if err := l.rewrite(resp); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(open.plain(resp.Body))
		if err != nil || string(got) != want || resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" {
			t.Errorf("%q: %v\n%s\n%s", encoding, err, got, want)
		}
	}
	// What cannot be read is passed on.
	l, resp := answer(t, http.Header{"Content-Type": {"text/html"}, "Content-Encoding": {"br"}}, strings.NewReader(before))
	if err := l.rewrite(resp); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(resp.Body); string(got) != before {
		t.Errorf("%s", got)
	}
}

// endless is a page without end.
type endless struct{ text string }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.text), nil }

// Pages are not held: what has come is passed on, and one token is bounded.
func TestHTMLIsStreamed(t *testing.T) {
	l, resp := answer(t, http.Header{"Content-Type": {"text/html"}}, endless{"<p>text</p>"})
	if err := l.rewrite(resp); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	l, resp = answer(t, http.Header{"Content-Type": {"text/html"}}, io.MultiReader(strings.NewReader(`<a href="`), endless{"x"}))
	if err := l.rewrite(resp); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a tag without end ended")
	}
}
