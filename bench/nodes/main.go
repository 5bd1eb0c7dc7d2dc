// Command nodes lives as the nodes of a cluster do, and holds what that costs kanzen against the model of docs/scale.md.
//
//	go run ./nodes -kanzen ../kanzen -nodes 300,1000,3000
//	go run ./nodes -sides pebble,peer -nodes 10000    # needs 2 file descriptors a node in each process: ulimit -n 65536
//
// Each node is a kubelet and a kube-proxy with a connection and a user of their own: a lease renewed every ten seconds, a status every five
// minutes, eight watches. Pods come and go on them, and an EndpointSlice changes, which all see.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kanzen-io/kanzen/bench/side"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

// sizes is what is measured.
type sizes struct {
	programs    side.Programs
	side        string
	pods        int           // on each node
	churn       float64       // pods a second on a thousand nodes
	length      time.Duration // of each part
	pod, status string
	profile     string
	rows        []row
}

func run(ctx context.Context) (err error) {
	var s sizes
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd; none: they are built into peer/bin (also as PEER_BIN)")
	sides := flag.String("sides", "kanzen", "kanzen, pebble, peer, separated by commas: who is measured")
	nodes := flag.String("nodes", "300,1000,3000", "how many nodes, one measurement each")
	flag.IntVar(&s.pods, "pods", 10, "pods on each node")
	flag.Float64Var(&s.churn, "churn", 10, "pods that come and go each second for a thousand nodes")
	flag.DurationVar(&s.length, "for", 30*time.Second, "how long each part lasts")
	flag.StringVar(&s.profile, "profile", "", "directory for processor profiles of the parts")
	flag.Parse()
	dir, err := side.Module(ctx)
	if err != nil {
		return err
	}
	for file, into := range map[string]*string{"pod.json": &s.pod, "status.json": &s.status} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		*into = string(b)
	}
	var names []string
	for short := range strings.SplitSeq(*sides, ",") {
		name := map[string]string{"kanzen": side.Kanzen, "pebble": side.Pebble, "peer": side.Peer}[short]
		if name == "" {
			return fmt.Errorf("there is no side %q", short)
		}
		names = append(names, name)
	}
	if s.programs, err = side.Build(ctx, *kanzen, *peerBin, names...); err != nil {
		return err
	}
	fmt.Println(side.Machine())
	var failed []error
	for size := range strings.SplitSeq(*nodes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		for _, s.side = range names {
			if err := s.measure(ctx, n); err != nil { // others may hold more
				failed = append(failed, fmt.Errorf("%s, %d nodes: %w", s.side, n, err))
			}
		}
	}
	printRows(s.rows)
	return errors.Join(failed...)
}

func nodeName(n int) string { return fmt.Sprintf("node-%05d", n) }

// measure starts a server, gives it nodes, and measures one part after the other.
func (s *sizes) measure(ctx context.Context, size int) error {
	tokens := token("proxy") + ",system:kube-proxy,proxy\n"
	for n := range size {
		tokens += fmt.Sprintf("%s,system:node:%s,%d,system:nodes\n", token(nodeName(n)), nodeName(n), n)
	}
	server, err := side.Start(ctx, s.side, s.programs, side.Options{Tokens: tokens})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := s.parts(ctx, server, size); err != nil {
		return fmt.Errorf("%w%s", err, server.Logs())
	}
	return nil
}

func (s *sizes) parts(ctx context.Context, server *side.Side, size int) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	f := &fleet{server: server, nodes: make([]*node, size)}
	if err := side.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	idle, err := server.RSS()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.fill(ctx, f); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	fmt.Fprintf(os.Stderr, "%d nodes with %d pods are there after %.0f s\n", size, size*s.pods, time.Since(began).Seconds())
	began = time.Now()
	if err := each(ctx, size, func(ctx2 context.Context, n int) error { return f.watch(ctx, f.nodes[n], &wg) }); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	fmt.Fprintf(os.Stderr, "%d watches are open after %.0f s\n", size*watchesPerNode, time.Since(began).Seconds())
	memory := idle + float64(size*s.pods*podMemory+size*watchesPerNode*watchMemory)/1024
	add := func(part string, work func(ctx context.Context)) error { return s.part(ctx, f, part, memory, work) }
	if err := server.Calm(ctx); err != nil {
		return err
	}
	if err := add("open watches, nothing happens", func(context.Context) {}); err != nil {
		return err
	}
	for _, n := range f.nodes {
		wg.Go(func() { f.live(ctx, n) })
	}
	if err := side.Sleep(ctx, renewal); err != nil {
		return err
	}
	if err := add("leases, node status", func(context.Context) {}); err != nil {
		return err
	}
	if err := add("and pods", func(ctx context.Context) { s.comeAndGo(ctx, f) }); err != nil {
		return err
	}
	return add("and endpoints, one change a second", func(ctx context.Context) { f.endpoints(ctx) })
}

// part measures what the server does while work goes on.
func (s *sizes) part(ctx context.Context, f *fleet, name string, memory float64, work func(ctx context.Context)) error {
	ctx, stop := context.WithTimeout(ctx, s.length)
	defer stop()
	f.times()
	before, err := f.server.CPU()
	if err != nil {
		return err
	}
	did, began := f.did(), time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { work(ctx) })
	if s.profile != "" {
		wg.Go(func() {
			if err := s.takeProfile(ctx, f, name); err != nil && ctx.Err() == nil {
				f.fail(err)
			}
		})
	}
	<-ctx.Done()
	wg.Wait()
	after, err := f.server.CPU()
	if err != nil {
		return err
	}
	took := time.Since(began)
	r := row{side: s.side, nodes: len(f.nodes), part: name, seconds: took.Seconds(), did: f.did().minus(did), memoryGoal: memory}
	r.leases, r.writes = f.times()
	r.predicted, r.used = r.did.predicted(took), (after-before).Seconds()/took.Seconds()
	if r.memory, err = f.server.RSS(); err != nil {
		return err
	}
	s.rows = append(s.rows, r)
	printRows([]row{r})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first != nil {
		return fmt.Errorf("%d requests failed, the first: %w", f.failed.Load(), f.first)
	}
	return nil
}

func (s *sizes) takeProfile(ctx context.Context, f *fleet, part string) error {
	file, err := os.Create(filepath.Join(s.profile, fmt.Sprintf("%d %s.pprof", len(f.nodes), part)))
	if err != nil {
		return err
	}
	defer file.Close()
	c := f.server.Client()
	defer c.Close()
	return c.Do(ctx, side.Request{Method: http.MethodGet, Path: fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(s.length.Seconds())-2)}, file)
}

// each does something for all nodes, sixteen at a time.
func each(ctx context.Context, size int, f func(ctx context.Context, n int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for n := range size {
		g.Go(func() error { return f(ctx, n) })
	}
	return g.Wait()
}

// fill makes the nodes, their pods, a service and its slice.
func (s *sizes) fill(ctx context.Context, f *fleet) error {
	c := f.server.Client()
	defer c.Close()
	for _, o := range [][2]string{
		{"/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`},
		{"/api/v1/namespaces/default/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`},
		{"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web","labels":{"kubernetes.io/service-name":"web"}},
			"addressType":"IPv4","ports":[{"port":80}],"endpoints":[]}`},
	} {
		if err := c.Create(ctx, o[0], o[1]); err != nil && side.Code(err) != http.StatusConflict {
			return err
		}
	}
	clients := make(chan *side.Client, 16)
	for range 16 {
		clients <- f.server.Client()
	}
	return each(ctx, len(f.nodes), func(ctx context.Context, n int) (err error) {
		if f.nodes[n], err = f.register(ctx, nodeName(n)); err != nil {
			return err
		}
		c := <-clients
		defer func() { clients <- c }()
		for p := range s.pods {
			if err := s.create(ctx, c, n, fmt.Sprintf("pod-%05d-%03d", n, p)); err != nil {
				return err
			}
			if err := s.patchStatus(ctx, f.nodes[n].kubelet, fmt.Sprintf("pod-%05d-%03d", n, p), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

const podsPath = "/api/v1/namespaces/default/pods"

func (s *sizes) create(ctx context.Context, c *side.Client, n int, name string) error {
	body := strings.NewReplacer("$NAMESPACE", "default", "$NAME", name, "node-$SHARD", nodeName(n), "$SHARD", strconv.Itoa(n%100)).Replace(s.pod)
	return c.Do(ctx, side.Request{Method: http.MethodPost, Path: podsPath, Accept: side.Protobuf, ContentType: "application/json", Body: body}, io.Discard)
}

func (s *sizes) patchStatus(ctx context.Context, c *side.Client, name string, beat int) error {
	return c.Do(ctx, side.Request{Method: http.MethodPatch, Path: podsPath + "/" + name + "/status", Accept: side.Protobuf,
		ContentType: "application/strategic-merge-patch+json", Body: strings.ReplaceAll(s.status, "$BEAT", strconv.Itoa(beat))}, io.Discard)
}

// comeAndGo makes pods, reports three statuses of each and deletes them, until ctx ends.
func (s *sizes) comeAndGo(ctx context.Context, f *fleet) {
	c := f.server.Client()
	defer c.Close()
	pace := time.NewTicker(time.Duration(float64(time.Second) / (s.churn * float64(len(f.nodes)) / 1000)))
	defer pace.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	whole := context.WithoutCancel(ctx) // what was begun is finished, or pods would stay
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			if err := s.life(whole, c, f, n); err != nil {
				f.fail(err)
			}
		})
	}
}

// life is that of a pod.
func (s *sizes) life(ctx context.Context, c *side.Client, f *fleet, n int) error {
	name, node := fmt.Sprintf("passing-%06d", n), n%len(f.nodes)
	var err error
	timed := func(do func() error) {
		began := time.Now()
		err = errors.Join(err, do())
		f.note(&f.wrote, time.Since(began))
	}
	timed(func() error { return s.create(ctx, c, node, name) })
	f.creates.Add(1)
	for beat := range 3 {
		timed(func() error { return s.patchStatus(ctx, f.nodes[node].kubelet, name, beat) })
		f.podStatuses.Add(1)
	}
	timed(func() error { return deletePod(ctx, c, name) })
	f.deletes.Add(1)
	return err
}

func deletePod(ctx context.Context, c *side.Client, name string) error {
	return c.Do(ctx, side.Request{Method: http.MethodDelete, Path: podsPath + "/" + name, ContentType: "application/json",
		Body: `{"gracePeriodSeconds":0}`}, io.Discard)
}

// endpoints changes the slice once a second until ctx ends.
func (f *fleet) endpoints(ctx context.Context) {
	c := f.server.Client()
	defer c.Close()
	for n := 0; side.Sleep(ctx, time.Second) == nil; n++ {
		err := c.Do(ctx, side.Request{Method: http.MethodPatch, Path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web", ContentType: "application/merge-patch+json",
			Body: fmt.Sprintf(`{"endpoints":[{"addresses":["10.1.2.%d"],"conditions":{"ready":true}}]}`, n%200+1)}, io.Discard)
		if err != nil && ctx.Err() == nil {
			f.fail(err)
		}
	}
}
