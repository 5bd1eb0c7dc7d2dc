package h2_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// handlers are what handlers do with an http.ResponseWriter and a request.
var handlers = map[string]http.HandlerFunc{
	"nothing":   func(http.ResponseWriter, *http.Request) {},
	"short":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
	"status":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	"two codes": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(202) },
	"no content": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	},
	"not modified": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"a"`)
		w.WriteHeader(http.StatusNotModified)
	},
	"length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	},
	"length zero": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") },
	"length bad": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "-3")
		_, _ = io.WriteString(w, "hello")
	},
	"less than its length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "30")
		_, _ = io.WriteString(w, "hello")
	},
	"types": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html><body>") },
	"encoded": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "hello")
	},
	"own date and type": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "today")
		w.Header().Set("Content-Type", "a/b")
		_, _ = io.WriteString(w, "hello")
	},
	"header after": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("A", "1")
		w.WriteHeader(200)
		w.Header().Set("A", "2")
		w.Header().Set("B", "2")
		_, _ = io.WriteString(w, "hello")
	},
	"odd headers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["lower"] = []string{"1", "2"}
		w.Header()["Bad Name"] = []string{"1"}
		w.Header()["Bad-Value"] = []string{"a\nb", "good"}
		w.Header()["Ümlaut"] = []string{"1"}
		w.Header()["Empty"] = []string{""}
		w.Header()["None"] = nil
		w.Header()["Transfer-Encoding"] = []string{"chunked"}
		w.Header()["Set-Cookie"] = []string{"b=1", "a=2"}
	},
	"long header": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 40 {
			w.Header().Set(fmt.Sprintf("Long-%d", i), strings.Repeat("x", 1000+i))
		}
		_, _ = io.WriteString(w, "hello")
	},
	"trailers": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "A, Content-Length, B")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("A", "after")
		w.Header().Set(http.TrailerPrefix+"C", "late")
	},
	"trailers without body": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "A")
		w.WriteHeader(200)
		w.Header().Set("A", "after")
	},
	"trailers that are missing": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Trailer", "A") },
	"flush": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hel")
		w.(http.Flusher).Flush()
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "lo")
	},
	"flush first": func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.Header().Set("Late", "1")
		_, _ = io.WriteString(w, "hello")
	},
	"early hints": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "hello")
	},
	"large": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("0123456789", 100_000))
	},
	"pieces":   writePieces(1000, 777),
	"one byte": writePieces(1, 30_000),
	"20 KB":    writePieces(20<<10, 3),
	"panic":    func(http.ResponseWriter, *http.Request) { panic("at the disco") },
	"abort":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"late abort": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	},
	"past": func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(-time.Second))
		_, _ = io.WriteString(w, "x")
	},
	"lifted": func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		_, _ = rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Now().Add(time.Hour))
		fmt.Fprint(w, rc.SetWriteDeadline(time.Time{}), rc.EnableFullDuplex())
	},
	"hijack": func(w http.ResponseWriter, _ *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		fmt.Fprint(w, errors.Is(err, http.ErrNotSupported))
	},
	"request": func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		r.Header.Del("User-Agent")
		fmt.Fprintln(w, r.Method, r.URL, r.RequestURI, r.Proto, r.Host != "", r.ContentLength, r.Header, len(data), err, r.Trailer, r.TLS.NegotiatedProtocol,
			r.RemoteAddr != "", r.TransferEncoding, r.Context().Value(http.ServerContextKey) != nil, r.Context().Value(http.LocalAddrContextKey) != nil, r.Context().Err())
		_, err = r.Body.Read(make([]byte, 1))
		fmt.Fprintln(w, err, r.Body.Close())
	},
	"unread": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
	"closed": func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err != nil)
	},
	"partial": func(w http.ResponseWriter, r *http.Request) {
		n, err := io.ReadFull(r.Body, make([]byte, 3))
		fmt.Fprint(w, n, err)
	},
	"echo": func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
}

func writePieces(size, times int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := range times {
			if _, err := w.Write([]byte(strings.Repeat(string(rune('a'+i%26)), size))); err != nil {
				panic(err)
			}
		}
	}
}

// requests are what handlers are asked with.
var requests = map[string]struct {
	method string
	body   func() io.Reader
	header http.Header
}{
	"get":      {method: "GET"},
	"head":     {method: "HEAD"},
	"headers":  {method: "GET", header: http.Header{"A": {"1", "2"}, "Cookie": {"a=1; b=2"}, "X-Own": {"ä"}, "Te": {"trailers"}}},
	"post":     {method: "POST", body: func() io.Reader { return strings.NewReader("hello, server") }},
	"stream":   {method: "PUT", body: func() io.Reader { return io.MultiReader(strings.NewReader("hello, "), strings.NewReader("server")) }},
	"empty":    {method: "POST", body: func() io.Reader { return strings.NewReader("") }},
	"large":    {method: "POST", body: func() io.Reader { return strings.NewReader(strings.Repeat("x", 3<<20)) }},
	"expects":  {method: "POST", body: func() io.Reader { return strings.NewReader("hello, server") }, header: http.Header{"Expect": {"100-continue"}}},
	"trailers": {method: "POST", body: func() io.Reader { return io.MultiReader(strings.NewReader("hello, server")) }, header: http.Header{"Trailer": {"At-End"}}},
	"delete":   {method: "DELETE"},
	"odd":      {method: "BREW"},
}

// TestAsWithNetHTTP asks all handlers with all requests, of both servers.
func TestAsWithNetHTTP(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		handlers[strings.ReplaceAll(r.URL.Path[1:], "_", " ")](w, r)
	}
	theirs, ours := serve(t, false, handler), serve(t, true, handler)
	for name := range handlers {
		for kind, r := range requests {
			t.Run(name+"/"+kind, func(t *testing.T) {
				path := "/" + strings.ReplaceAll(name, " ", "_") + "?a=b%20c&d"
				get := func(s *served) answerOf {
					var body io.Reader
					if r.body != nil {
						body = r.body()
					}
					return ask(t, s, r.method, path, body, r.header)
				}
				want, got := get(theirs), get(ours)
				if want.Length < 0 && got.Length > 4096 {
					// An answer that net/http has begun to send before the handler was done.
					got.Length = -1
					got.Header.Del("Content-Length")
				}
				if !reflect.DeepEqual(want, got) {
					t.Errorf("the answer:\n%+v\nnet/http's:\n%+v", got, want)
				}
			})
		}
	}
	for _, line := range []string{"panic serving", "at the disco"} {
		if !strings.Contains(ours.logged(), line) {
			t.Errorf("the log has no %q", line)
		}
	}
	if strings.Contains(ours.logged(), http.ErrAbortHandler.Error()) {
		t.Error("the log has answers that were to be aborted")
	}
}

// TestMoreThanDeclared: net/http refuses what exceeds the length that was declared only when it has sent the header.
func TestMoreThanDeclared(t *testing.T) {
	failed := make(chan error, 1)
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, err := io.WriteString(w, "hello")
		failed <- err
		_, _ = io.WriteString(w, "hel")
	})
	ask(t, s, "GET", "/", nil, nil)
	if err := <-failed; !errors.Is(err, http.ErrContentLength) {
		t.Errorf("writing five bytes of three: %v", err)
	}
}

func TestReadDeadline(t *testing.T) {
	both(t, func(t *testing.T, ours bool) {
		s := serve(t, ours, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			begun := make([]byte, 5)
			_, err := io.ReadFull(r.Body, begun)
			_ = rc.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, late := r.Body.Read(begun)
			fmt.Fprintf(w, "%s %v %v", begun, err, errors.Is(late, os.ErrDeadlineExceeded))
		})
		in, out := io.Pipe()
		defer out.Close()
		go func() { _, _ = io.WriteString(out, "hello") }()
		if a := ask(t, s, "POST", "/", in, nil); a.Body != "hello <nil> true" {
			t.Errorf("the handler saw %q", a.Body)
		}
	})
}
