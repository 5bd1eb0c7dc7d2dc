package aggregator_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// cpu is the processor time that this process has used, in nanoseconds.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

const thing = `{"apiVersion":"ext.test/v1","kind":"Thing","metadata":{"name":"x"}}`

// BenchmarkProxied compares a request through the proxy with the same request to the extension server directly. Client,
// extension server and proxy are one process, so the difference is what the proxy and its chain cost.
func BenchmarkProxied(b *testing.B) {
	s := kanzentest.Start(b, kanzentest.Listen())
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things/x", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, thing) })
	e := served(b, s, mux)
	direct := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer direct.CloseIdleConnections()
	through, err := restTransport(s)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		rt        http.RoundTripper
	}{
		{"direct", e.server.URL + "/apis/ext.test/v1/things/x", direct},
		{"through", "https://" + s.Address() + "/apis/ext.test/v1/things/x", through},
		{"local", "https://" + s.Address() + "/api/v1/namespaces/default", through},
	} {
		b.Run(c.name, func(b *testing.B) {
			fetch(b, c.rt, c.url)
			before := cpu(b)
			for b.Loop() {
				fetch(b, c.rt, c.url)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1000, "cpu-µs/op")
		})
		b.Run(c.name+" by 16 clients", func(b *testing.B) {
			fetch(b, c.rt, c.url)
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			before := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					fetch(b, c.rt, c.url)
				}
			})
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1000, "cpu-µs/op")
		})
	}
}

func fetch(b *testing.B, rt http.RoundTripper, url string) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		b.Fatal(resp.Status, err)
	}
}

// BenchmarkWatchEvent measures how long an event takes from the extension server to the client, directly and through the
// proxy.
func BenchmarkWatchEvent(b *testing.B) {
	s := kanzentest.Start(b, kanzentest.Listen())
	events := make(chan struct{})
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.Flush()
		for {
			select {
			case <-events:
				_, _ = io.WriteString(w, thing+"\n")
				_ = control.Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	e := served(b, s, mux)
	direct := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer direct.CloseIdleConnections()
	through, err := restTransport(s)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		rt        http.RoundTripper
	}{
		{"direct", e.server.URL, direct}, {"through", "https://" + s.Address(), through},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/apis/ext.test/v1/things?watch=1", nil)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := c.rt.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			defer resp.Body.Close()
			buf := make([]byte, len(thing)+1)
			var slowest time.Duration
			for b.Loop() {
				began := time.Now()
				events <- struct{}{}
				if _, err := io.ReadFull(resp.Body, buf); err != nil {
					b.Fatal(err)
				}
				slowest = max(slowest, time.Since(began))
			}
			b.ReportMetric(float64(slowest.Microseconds()), "slowest-µs")
		})
	}
}

// BenchmarkLocalBesideBroken measures local requests of a server alone and of one with a thousand groups of extension
// servers that hang, crash, lie and have the wrong certificate, in turn. The ratio of their 99th percentiles is the
// metric p99-ratio; 1.2 is the bar.
func BenchmarkLocalBesideBroken(b *testing.B) {
	alone, beside := kanzentest.Start(b), kanzentest.Start(b)
	const each = 250
	broken := map[string]http.Handler{
		"hang": http.HandlerFunc(hang), "crash": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"garbage": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{") }), "wrong": things("wrong.test", "v1"),
	}
	for name, h := range broken {
		hosts := []string{name + ".default.svc"}
		if name == "wrong" {
			hosts = []string{"other.default.svc"}
		}
		e := newExtension(b, beside, name, h, hosts...)
		for n := range each {
			e.register(b, beside, fmt.Sprintf("g%d.%s.test", n, name), "v1")
		}
	}
	for _, name := range []string{"hang", "crash", "wrong"} {
		awaitCondition(b, beside, "v1.g0."+name+".test", "FailedDiscoveryCheck")
	}
	var ratios []float64
	for b.Loop() {
		without := latency(b, alone)
		ratios = append(ratios, float64(latency(b, beside))/float64(without))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "p99-ratio")
}
