// Command planes measures many control planes in one kanzen.
//
//	go run ./planes [-kanzen ../bin/kanzen] [-planes 10000] [-engine etcd]
//
// It creates planes one after another and with 16 clients, each until the Plane is ready; asks some that are asleep and notes how long
// the first answer takes; weighs the process with all asleep and with some awake, without and with 30 definitions; counts the series of
// /metrics; floods one plane in several ways and asks another; restarts the server with all planes; and deletes them all.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "planes:", err)
		os.Exit(1)
	}
}

// bench is one server and how much is asked of it.
type bench struct {
	program, engine, dir string
	planes, awake        int
	rest                 time.Duration
	process              *exec.Cmd
	admin                *client
}

func run(ctx context.Context) (err error) {
	var b bench
	flag.StringVar(&b.program, "kanzen", "", "a kanzen binary; none: it is built from this repository")
	flag.StringVar(&b.engine, "engine", "etcd", "the database: etcd or pebble")
	flag.IntVar(&b.planes, "planes", 10000, "how many planes there are in the end")
	flag.IntVar(&b.awake, "awake", 100, "how many of them are awake together")
	flag.DurationVar(&b.rest, "rest", 30*time.Second, "how long after the last deletion the server is weighed: etcd is compacted every five minutes")
	ask := flag.Bool("ask", false, "only ask the plane of -kubeconfig")
	flood := flag.String("flood", "", "only flood the plane of -kubeconfig, in this way")
	kubeconfig := flag.String("kubeconfig", "", "the plane that -ask and -flood are about")
	flag.Parse()
	if *ask || *flood != "" {
		return one(ctx, *kubeconfig, *ask, *flood)
	}
	p, err := side.Build(ctx, b.program, "", side.Kanzen)
	if err != nil {
		return err
	}
	b.program = p.Kanzen
	if b.dir, err = os.MkdirTemp("", "planes-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop(), os.RemoveAll(b.dir)) }()
	fmt.Printf("%s\n%d planes on %s\n\n", side.Machine(), b.planes, b.engine)
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.create, b.wake, b.flood, b.restart, b.remove} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// idle is after how long a plane goes to sleep; it is awake for the measurements until then.
const idle = 20 * time.Second

const port = "7543"

// start starts the server and waits until it is ready.
func (b *bench) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(b.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.process = exec.Command(b.program, "serve", "--data-dir", filepath.Join(b.dir, "data"), "--secure-port", port, "--planes", "--planes-idle", idle.String(), "--engine", b.engine)
	b.process.Stdout, b.process.Stderr = log, log
	if err := b.process.Start(); err != nil {
		return err
	}
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(b.dir, "data", "pki", "admin.kubeconfig"))
		if err == nil {
			if b.admin, err = newClient(data); err == nil && b.admin.do(ctx, "GET", "/readyz", nil, nil) == nil &&
				b.admin.do(ctx, "GET", "/apis/planes.kanzen.io/v1/planes?limit=1", nil, nil) == nil {
				return nil
			}
		}
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("the server does not come up: %w", err)
		}
	}
}

func (b *bench) stop() error {
	if b.process == nil {
		return nil
	}
	_ = b.process.Process.Signal(syscall.SIGTERM)
	_ = b.process.Wait()
	b.process = nil
	return nil
}

// client asks one control plane.
type client struct {
	http *http.Client
	url  string
}

func newClient(kubeconfig []byte) (*client, error) {
	var c clientcmdv1.Config
	if err := yaml.Unmarshal(kubeconfig, &c); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(c.AuthInfos[0].AuthInfo.ClientCertificateData, c.AuthInfos[0].AuthInfo.ClientKeyData)
	if err != nil {
		return nil, err
	}
	return &client{&http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}}, c.Clusters[0].Cluster.Server}, nil //nolint:gosec // it is the server that was just started
}

func (c *client) do(ctx context.Context, method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s %.300s", method, path, resp.Status, data)
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
		return nil
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

const planesPath = "/apis/planes.kanzen.io/v1/planes"

func name(n int) string { return fmt.Sprintf("p%05d", n) }

// plane is what is read of a Plane.
type plane struct {
	Status struct {
		Conditions []struct{ Type, Status, Message string }
	}
}

// make creates a plane and waits until it is ready.
func (b *bench) make(ctx context.Context, n int) (time.Duration, error) {
	began := time.Now()
	err := b.admin.do(ctx, "POST", planesPath, map[string]any{"apiVersion": "planes.kanzen.io/v1", "kind": "Plane", "metadata": map[string]any{"name": name(n)}}, nil)
	for err == nil {
		var p plane
		if err = b.admin.do(ctx, "GET", planesPath+"/"+name(n), nil, &p); err != nil {
			break
		}
		if c := p.Status.Conditions; len(c) > 0 && c[0].Status == "True" {
			return time.Since(began), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, err
}

// create creates all planes.
func (b *bench) create(ctx context.Context) error {
	first, err := b.make(ctx, 0)
	if err != nil {
		return err
	}
	single := min(500, b.planes/2)
	before := b.weigh(ctx)
	var took []time.Duration
	for n := range single {
		d, err := b.make(ctx, 1+n)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	fmt.Printf("create, ready for kubectl: the first %s; %d one after another %s\n", ms(first), single, quantiles(took))
	series := b.series(ctx)
	began, left := time.Now(), b.planes-1-single
	took, err = parallel(16, left, func(n int) (time.Duration, error) { return b.make(ctx, 1+single+n) })
	if err != nil {
		return err
	}
	fmt.Printf("create with 16 clients: %.0f a second, %s\n", float64(left)/time.Since(began).Seconds(), quantiles(took))
	if err := side.Sleep(ctx, idle+10*time.Second); err != nil {
		return err
	}
	asleep := b.weigh(ctx)
	fmt.Printf("resident: %s with one plane, %s with %d asleep: %.1f KiB each\n", mib(before), mib(asleep), b.planes, float64(asleep-before)/float64(b.planes)/1024)
	fmt.Printf("series of /metrics: %d with %d planes, %d with %d\n", series, single+1, b.series(ctx), b.planes)
	return nil
}

// parallel calls f for n numbers, some at a time, and returns what each took.
func parallel(clients, n int, f func(n int) (time.Duration, error)) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	errs := make([]error, clients)
	var next atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for at := int(next.Add(1)) - 1; at < n && errs[c] == nil; at = int(next.Add(1)) - 1 {
				took[at], errs[c] = f(at)
			}
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}

// clientOf is the administrator of a plane.
func (b *bench) clientOf(ctx context.Context, n int) (*client, error) {
	data, err := b.kubeconfigOf(ctx, n)
	if err != nil {
		return nil, err
	}
	return newClient(data)
}

// kubeconfigOf is the administrator's kubeconfig of a plane.
func (b *bench) kubeconfigOf(ctx context.Context, n int) ([]byte, error) {
	var secret struct{ Data map[string]string }
	if err := b.admin.do(ctx, "GET", "/api/v1/namespaces/kanzen-planes/secrets/"+name(n)+"-kubeconfig", nil, &secret); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(secret.Data["value"])
}

const namespaces = "/api/v1/namespaces"

// wake asks planes that are asleep, and weighs them awake.
func (b *bench) wake(ctx context.Context) error {
	before := b.weigh(ctx)
	clients := make([]*client, b.awake)
	var took []time.Duration
	for n := range clients {
		c, err := b.clientOf(ctx, n)
		if err != nil {
			return err
		}
		// Connecting is not waking: the root answers this, whoever asks.
		root := client{c.http, strings.TrimSuffix(c.url, "/planes/"+name(n))}
		_ = root.do(ctx, "GET", "/livez", nil, nil)
		began := time.Now()
		if err := c.do(ctx, "GET", namespaces, nil, nil); err != nil {
			return err
		}
		took, clients[n] = append(took, time.Since(began)), c
	}
	fmt.Printf("first answer of a plane that was asleep: %s\n", quantiles(took))
	if err := side.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	empty := b.weigh(ctx)
	fmt.Printf("an empty one awake: %.0f KiB\n", float64(empty-before)/float64(b.awake)/1024)
	began := time.Now()
	if _, err := parallel(4, b.awake, func(n int) (time.Duration, error) { return 0, define(ctx, clients[n]) }); err != nil {
		return err
	}
	defined := time.Since(began)
	if err := side.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	fmt.Printf("one with %d definitions awake: %.0f KiB; a definition took %s\n", definitions, float64(b.weigh(ctx)-before)/float64(b.awake)/1024,
		ms(defined/time.Duration(definitions*b.awake)))
	return nil
}

const definitions = 30

// define creates definitions.
func define(ctx context.Context, c *client) error {
	for n := range definitions {
		if err := c.do(ctx, "POST", definitionsPath, definition(fmt.Sprintf("things%d", n), fmt.Sprintf("Thing%d", n)), nil); err != nil {
			return err
		}
	}
	return nil
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func definition(plural, kind string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{
					"size": map[string]any{"type": "integer", "minimum": 1}, "name": map[string]any{"type": "string"}}}}}}}}},
	}
}

// restart restarts the server with all planes.
func (b *bench) restart(ctx context.Context) error {
	if err := b.stop(); err != nil {
		return err
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	ready := time.Since(began)
	c, err := b.clientOf(ctx, b.planes-1)
	if err != nil {
		return err
	}
	if err := c.do(ctx, "GET", namespaces, nil, nil); err != nil {
		return err
	}
	fmt.Printf("restart with %d planes: ready in %s, the first answer of one after %s; resident %s\n", b.planes, ms(ready), ms(time.Since(began)), mib(b.weigh(ctx)))
	return nil
}

// remove deletes all planes.
func (b *bench) remove(ctx context.Context) error {
	began := time.Now()
	if _, err := parallel(16, b.planes, func(n int) (time.Duration, error) {
		return 0, b.admin.do(ctx, "DELETE", planesPath+"/"+name(n), nil, nil)
	}); err != nil {
		return err
	}
	for {
		var list struct{ Items []json.RawMessage }
		if err := b.admin.do(ctx, "GET", planesPath, nil, &list); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Printf("delete %d: %s", b.planes, ms(time.Since(began)))
	if err := side.Sleep(ctx, b.rest); err != nil {
		return err
	}
	fmt.Printf("; resident %s later %s\n", b.rest, mib(b.weigh(ctx)))
	return nil
}

// weigh returns the anonymous memory of the server after a collection, in bytes: files that are mapped are not counted.
func (b *bench) weigh(ctx context.Context) int64 {
	_ = b.admin.do(ctx, "GET", "/debug/pprof/heap?gc=1&debug=1", nil, new(string))
	time.Sleep(3 * time.Second) // the runtime gives back in the background
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// series counts the series of /metrics.
func (b *bench) series(ctx context.Context) (n int) {
	var text string
	if b.admin.do(ctx, "GET", "/metrics", nil, &text) != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func mib(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

func quantiles(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("median %s, p99 %s", ms(took[len(took)/2]), ms(took[len(took)*99/100]))
}
