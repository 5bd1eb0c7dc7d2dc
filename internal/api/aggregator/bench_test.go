package aggregator_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

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

// way is a way to the extension server that a benchmark takes.
type way struct {
	name, url string
	rt        http.RoundTripper
}

// ways are: direct, through a bare reverse proxy of the standard library, and through this server. All have the same kind
// of client, and speak HTTP/2 with it. Clients, proxies and extension server are one process.
func ways(b *testing.B, mux *http.ServeMux) []way {
	s := kanzentest.Start(b, kanzentest.Listen())
	e := served(b, s, mux)
	to, err := url.Parse(e.server.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.SetXForwarded() }, Transport: client(b, nil), BufferPool: &pieces{},
	})
	bare.EnableHTTP2 = true
	bare.StartTLS()
	b.Cleanup(bare.Close)
	config, err := rest.TLSConfigFor(s.SocketConfig())
	if err != nil {
		b.Fatal(err)
	}
	return []way{{"direct", e.server.URL, client(b, nil)}, {"bare", bare.URL, client(b, nil)}, {"through", "https://" + s.Address(), client(b, config)}}
}

func client(b *testing.B, config *tls.Config) *http.Transport {
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true}
	}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	b.Cleanup(t.CloseIdleConnections)
	return t
}

// pieces are the buffers of a bare reverse proxy.
type pieces struct{ sync.Pool }

func (p *pieces) Get() []byte {
	if b, ok := p.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pieces) Put(b []byte) { p.Pool.Put(&b) }

// BenchmarkProxied measures what a proxied request costs over a direct one, in processor time of all sides: the metric
// through-over-µs, for which 100 is the bar, beside bare-over-µs. Each round sends the same number of requests each way, so
// that what else the machine does concerns all of them; the metrics are medians of the rounds.
func BenchmarkProxied(b *testing.B) {
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things/x", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, thing) })
	all := ways(b, mux)
	all = append(all, way{"local", all[2].url, all[2].rt})
	const round = 1600
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			costs := map[string][]float64{}
			for b.Loop() {
				for _, w := range all {
					at := w.url + "/apis/ext.test/v1/things/x"
					if w.name == "local" {
						at = w.url + "/api/v1/namespaces/default"
					}
					fetch(b, w.rt, at)
					before := cpu(b)
					var wg sync.WaitGroup
					for range clients {
						wg.Go(func() {
							for range round / clients {
								fetch(b, w.rt, at)
							}
						})
					}
					wg.Wait()
					costs[w.name] = append(costs[w.name], float64(cpu(b)-before)/round/1000)
				}
			}
			direct := median(costs["direct"])
			b.ReportMetric(direct, "direct-µs")
			for _, w := range all[1:] {
				b.ReportMetric(median(costs[w.name])-direct, w.name+"-over-µs")
			}
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func fetch(b *testing.B, rt http.RoundTripper, url string) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		b.Error(resp.Status, err)
	}
}

// BenchmarkWatchEvent measures what the proxy adds to the time that an event takes from the extension server to the client:
// the metric through-over-µs, for which 1,000 is the bar, a median, and p99-over-µs of the 99th percentiles.
func BenchmarkWatchEvent(b *testing.B) {
	events := map[string]chan struct{}{"direct": make(chan struct{}), "bare": make(chan struct{}), "through": make(chan struct{})}
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.Flush()
		for {
			select {
			case <-events[r.URL.Query().Get("labelSelector")]:
				_, _ = io.WriteString(w, thing+"\n")
				_ = control.Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	all := ways(b, mux)
	bodies := map[string]io.Reader{}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, w := range all {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/apis/ext.test/v1/things?watch=1&labelSelector="+w.name, nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := w.rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		bodies[w.name] = resp.Body
	}
	took, buf := map[string][]float64{}, make([]byte, len(thing)+1)
	for b.Loop() {
		for _, w := range all {
			began := time.Now()
			events[w.name] <- struct{}{}
			if _, err := io.ReadFull(bodies[w.name], buf); err != nil {
				b.Fatal(err)
			}
			took[w.name] = append(took[w.name], float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	p99 := func(all []float64) float64 { return all[len(all)*99/100] }
	direct := median(took["direct"])
	b.ReportMetric(direct, "direct-µs")
	b.ReportMetric(median(took["bare"])-direct, "bare-over-µs")
	b.ReportMetric(median(took["through"])-direct, "through-over-µs")
	b.ReportMetric(p99(took["through"])-p99(took["direct"]), "p99-over-µs")
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
