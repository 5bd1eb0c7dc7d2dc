package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// BenchmarkFlightRecorder measures requests through the whole chain with the flight recorder and without: reading a small
// object, creating one, and the delivery of an event to 100 watches.
func BenchmarkFlightRecorder(b *testing.B) {
	for _, c := range []struct {
		name   string
		memory int64
	}{{"off", 0}, {"on", 24 << 20}} {
		s := startWith(b, func(cfg *config.Config) { cfg.FlightRecorderMemory = c.memory })
		do(b, s, "POST", configMaps, "application/json", "", []byte(`{"metadata":{"name":"a"},"data":{"a":"b"}}`), 201)
		b.Run("get/"+c.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			w, r := &discard{h: http.Header{}}, benchRequest(http.MethodGet, configMaps+"/a", nil)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				s.handler.ServeHTTP(w, r)
			}
		})
		n := 0
		b.Run("create/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				w := &discard{h: http.Header{}}
				s.handler.ServeHTTP(w, benchRequest(http.MethodPost, configMaps, []byte(fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":"b"}}`, n))))
				if w.code != http.StatusCreated {
					b.Fatal(w.code)
				}
			}
		})
		b.Run("watch/"+c.name, func(b *testing.B) { deliver(b, s) })
	}
}

func benchRequest(method, path string, body []byte) *http.Request {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("User-Agent", "bench/1")
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(inprocess.WithUser(r.Context(), masters))
}

// deliver measures how long a change takes to reach 100 watches.
func deliver(b *testing.B, s *server) {
	const watches = 100
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	got := make(chan struct{}, watches)
	for range watches {
		r := benchRequest(http.MethodGet, configMaps+"?watch=1&fieldSelector=metadata.name%3Da", nil)
		go s.handler.ServeHTTP(&counting{discard{h: http.Header{}}, got}, r.WithContext(inprocess.WithUser(ctx, masters)))
	}
	await := func() {
		for range watches {
			select {
			case <-got:
			case <-time.After(time.Minute):
				b.Fatal("an event is missing")
			}
		}
	}
	await() // the object as it is
	n := 0
	for b.Loop() {
		n++
		w := &discard{h: http.Header{}}
		r := benchRequest(http.MethodPatch, configMaps+"/a", []byte(fmt.Sprintf(`{"data":{"n":"%d %d"}}`, n, time.Now().UnixNano())))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		s.handler.ServeHTTP(w, r)
		if w.code != http.StatusOK {
			b.Fatal(w.code)
		}
		await()
	}
}

// counting tells of each write of a watch.
type counting struct {
	discard
	got chan<- struct{}
}

func (c *counting) Write(p []byte) (int, error) {
	c.got <- struct{}{}
	return len(p), nil
}
