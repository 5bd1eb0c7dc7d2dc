package test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

var (
	consoleScale = flag.Bool("console.scale", false, "look at the console with very many definitions, and under very many requests of very many users")
	consoleCRDs  = flag.Int("console.crds", 5000, "definitions")
	consoleRate  = flag.Int("console.rate", 10000, "requests a second, if the machine can")
	consoleUsers = flag.Int("console.users", 2000, "users, each with a program and objects of its own")
)

// Bounds of what the console may cost at any size.
const (
	mostSent   = 1 << 20 // bytes of an answer to the page
	mostOnPage = 20_000  // elements of a view
)

// TestConsoleAtScale measures each view of the console: how long the server takes for its data, how much that is, how long the
// browser takes to draw it and how long the page is deaf meanwhile. What does not depend on the machine has a bound.
func TestConsoleAtScale(t *testing.T) {
	if !*consoleScale {
		t.Skip("takes minutes; -console.scale")
	}
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	defineMany(t, k)
	client := k.rawClient(t)
	sent := k.flood(t, client)
	time.Sleep(20 * time.Second) // the recorder is full, and a minute's statistics have something to count

	before, at := sent.Load(), time.Now()
	for _, data := range []string{"trafficstats?fieldSelector=by%3DAll", "trafficstats?fieldSelector=by%3DUser&limit=500", "trafficstats?limit=500", "requests?limit=200",
		"requests?limit=200&fieldSelector=as%3Du7", "requests?limit=200&fieldSelector=name%3Dnothing", "watches?limit=200", "webhookstats?limit=500", "views?limit=200&fieldSelector=costliest%3Dtrue",
		"definitions?limit=200&fieldSelector=costliest%3Dtrue", "definitions?limit=200", "controllers?limit=500", "prioritylevels?limit=500", "datastores",
		"history?resource=configmaps&namespace=default&name=n7"} {
		began := time.Now()
		size := len(k.raw(t, client, "/console/data/"+data))
		t.Logf("%-60s %7.1f ms %8d bytes", data, float64(time.Since(began).Microseconds())/1e3, size)
		if size > mostSent {
			t.Errorf("%s: %d bytes", data, size)
		}
	}
	metrics := string(k.raw(t, client, "/metrics"))
	held := figure(t, metrics, "kanzen_flight_recorder_bytes")
	t.Logf("the recorder holds %.1f MiB, the histories of %.0f objects", held/(1<<20), figure(t, metrics, "kanzen_flight_recorder_objects"))
	if held > 12<<20 {
		t.Errorf("the recorder holds %.0f bytes of 12 MiB", held)
	}

	b := browser(t, k.address)
	b.open(k.consoleLink(t), "#nav a[aria-current]")
	for _, view := range []string{"overview", "requests", "object?resource=configmaps&namespace=default&name=n7", "webhooks", "watches", "levels", "storage", "definitions", "definitions?all=all", "controllers", "map", "explore", "explore?resource=configmaps", "explore?resource=customresourcedefinitions&group=apiextensions.k8s.io"} {
		began := time.Now()
		got(b, chromedp.Evaluate[string](fmt.Sprintf("location.hash = '#/%s'", view)))
		b.finds("#main[data-drawn]")
		drawn := time.Since(began)
		// For two refreshes: the longest time for which nothing else could happen in the page.
		deaf := got(b, chromedp.Evaluate[float64](`new Promise(done => { let last = performance.now(), most = 0; const end = last + 5000;
			const tick = () => { const now = performance.now(); most = Math.max(most, now - last - 10); last = now; now < end ? setTimeout(tick, 10) : done(most); }; tick(); })`, chromedp.EvalAwaitPromise))
		elements := got(b, chromedp.Evaluate[int]("document.querySelectorAll('*').length"))
		t.Logf("%-55s drawn after %6.0f ms, deaf for %4.0f ms at most, %5d elements", view, float64(drawn.Milliseconds()), deaf, elements)
		if elements > mostOnPage {
			t.Errorf("%s: %d elements", view, elements)
		}
		if said := b.text("#trouble"); said != "" {
			t.Errorf("%s: %s", view, said)
		}
	}
	t.Logf("meanwhile %.0f requests a second", float64(sent.Load()-before)/time.Since(at).Seconds())
	b.clean()
}

// defineMany makes the definitions.
func defineMany(t *testing.T, k *kanzen) {
	c := k.config()
	c.QPS = -1
	crds := apiextensions.NewForConfigOrDie(c).ApiextensionsV1().CustomResourceDefinitions()
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 8 {
		all.Go(func() {
			for n := next.Add(1); n <= int64(*consoleCRDs); n = next.Add(1) {
				d := definition()
				plural := fmt.Sprintf("widgets%d", n)
				d.Name, d.Spec.Group = fmt.Sprintf("%s.g%d.example.com", plural, n/10), fmt.Sprintf("g%d.example.com", n/10)
				d.Spec.Names.Plural, d.Spec.Names.Singular, d.Spec.Names.Kind = plural, fmt.Sprintf("widget%d", n), fmt.Sprintf("Widget%d", n)
				if _, err := crds.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d definitions took %s", *consoleCRDs, time.Since(began).Round(time.Millisecond))
}

// rawClient is a client that does not wait to be gentle, over a few connections.
func (k *kanzen) rawClient(t *testing.T) *http.Client {
	t.Helper()
	c, err := rest.TLSConfigFor(k.config())
	must(t, err)
	transports := make([]http.RoundTripper, 4)
	for n := range transports {
		transports[n] = &http.Transport{TLSClientConfig: c.Clone(), ForceAttemptHTTP2: true}
	}
	var turn atomic.Int64
	return &http.Client{Transport: inTurns(func(r *http.Request) (*http.Response, error) {
		return transports[turn.Add(1)%int64(len(transports))].RoundTrip(r)
	}), Timeout: time.Minute}
}

type inTurns func(*http.Request) (*http.Response, error)

func (f inTurns) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (k *kanzen) raw(t *testing.T, c *http.Client, path string) []byte {
	t.Helper()
	answer, err := c.Get((&url.URL{Scheme: "https", Host: k.address}).String() + path)
	must(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode >= 300 {
		t.Fatalf("%s: %d %s", path, answer.StatusCode, text)
	}
	return text
}

// flood sends requests of ever other users, of which each fiftieth is a write, until the test ends, and counts them.
func (k *kanzen) flood(t *testing.T, c *http.Client) *atomic.Int64 {
	ctx, cancel := context.WithCancel(t.Context())
	var sent, failed atomic.Int64
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if failed.Load() > sent.Load()/100 {
			t.Errorf("of %d requests %d failed", sent.Load(), failed.Load())
		}
	})
	const senders = 16
	began := time.Now()
	for range senders {
		all.Go(func() {
			for ctx.Err() == nil {
				n := sent.Add(1)
				if due := began.Add(time.Duration(n) * time.Second / time.Duration(*consoleRate)); time.Until(due) > 0 {
					time.Sleep(time.Until(due))
				}
				if err := k.one(ctx, c, int(n)); err != nil && ctx.Err() == nil {
					if failed.Add(1) == 1 {
						t.Log(err)
					}
				}
			}
		})
	}
	return &sent
}

func (k *kanzen) one(ctx context.Context, c *http.Client, n int) error {
	method, path, body := http.MethodGet, "/api/v1/namespaces/default", ""
	if n%50 == 0 {
		method, path = http.MethodPatch, fmt.Sprintf("/api/v1/namespaces/default/configmaps/n%d?fieldManager=m", n/50%*consoleUsers)
		body = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n%d","namespace":"default"},"data":{"n":"%d"}}`, n/50%*consoleUsers, n)
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+k.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	user := strconv.Itoa(n % *consoleUsers)
	r.Header.Set("User-Agent", "program-"+user+"/1")
	r.Header.Set("Impersonate-User", "u"+user)
	r.Header.Set("Impersonate-Group", "system:masters")
	if body != "" {
		r.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return nil
}

// figure returns the value of a metric without labels.
func figure(t *testing.T, metrics, name string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(metrics)
	if m == nil {
		t.Fatalf("there is no metric %s", name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	must(t, err)
	return v
}
