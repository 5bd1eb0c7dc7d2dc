// Command audit measures what an audit log at the level Metadata costs the
// cheapest requests: GETs of one object over TLS and HTTP/2, to two kanzens of
// which one keeps a log, and to two kube-apiservers if there is one.
//
//	go run ./audit -kanzen ../kanzen -peer-bin peer/bin
//
// The two are asked in turns, in short rounds, so that what else the machine
// does falls on both. What counts is the time of processors that each used for a
// request, of which the median round is taken.
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
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

const (
	policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	object = "/api/v1/namespaces/default/configmaps/one"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

// audit is how much is measured.
type audit struct {
	programs                  side.Programs
	rounds, requests, clients int
}

func run(ctx context.Context) (err error) {
	var a audit
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd, to measure them too (also as PEER_BIN)")
	flag.IntVar(&a.rounds, "rounds", 15, "rounds for each server")
	flag.IntVar(&a.requests, "requests", 8000, "requests in a round")
	flag.IntVar(&a.clients, "clients", 16, "connections")
	flag.Parse()
	sides := []string{side.Kanzen}
	if *peerBin != "" {
		sides = []string{side.Peer, side.Kanzen}
	}
	if a.programs, err = side.Build(ctx, *kanzen, *peerBin, sides...); err != nil {
		return err
	}
	fmt.Println(side.Machine())
	costs := map[string]cost{}
	for _, name := range sides {
		c, err := a.measure(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("\n%s\n", name)
		c.print()
		costs[name] = c
	}
	if peer, ok := costs[side.Peer]; ok {
		compare(peer, costs[side.Kanzen])
	}
	return nil
}

// pair is a figure without and with an audit log.
type pair [2]time.Duration

// log is what the log adds to the figure.
func (p pair) log() time.Duration { return p[1] - p[0] }

// cost is what a request costs a side.
type cost struct {
	used pair // time of processors
	took pair // from one request to the next
}

func (c cost) print() {
	for n, what := range []string{"without", "with"} {
		fmt.Printf("  %-7s an audit log: %s of processors a request, %s from one to the next\n", what, c.used[n], c.took[n])
	}
	fmt.Printf("  the log takes %s of processors a request, which is %.1f%%, and %.1f%% of throughput\n",
		c.used.log(), 100*float64(c.used.log())/float64(c.used[0]), 100*float64(c.took.log())/float64(c.took[1]))
}

// compare prints how many times less kanzen uses.
func compare(peer, kanzen cost) {
	fmt.Println()
	for _, f := range []struct {
		what         string
		peer, kanzen time.Duration
	}{
		{"a request without an audit log", peer.used[0], kanzen.used[0]},
		{"a request with an audit log", peer.used[1], kanzen.used[1]},
		{"the log alone", peer.used.log(), kanzen.used.log()},
	} {
		if f.peer <= 0 || f.kanzen <= 0 { // too few rounds to see it
			continue
		}
		fmt.Printf("processors, %s: %s (%s) and %s (%s), kanzen is better by %.2f×\n",
			f.what, f.peer, side.Peer, f.kanzen, side.Kanzen, float64(f.peer)/float64(f.kanzen))
	}
}

// measure starts a side twice, asks both in turns and stops them.
func (a *audit) measure(ctx context.Context, name string) (c cost, err error) {
	dir, err := os.MkdirTemp("", "kanzen-audit-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "policy")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		return c, err
	}
	var servers [2]*server
	for n, flags := range [][]string{nil, {"--audit-policy-file", file, "--audit-log-path", filepath.Join(dir, "log")}} {
		if servers[n], err = a.start(ctx, name, flags); err != nil {
			return c, err
		}
		defer servers[n].stop()
	}
	for _, s := range servers { // once both are started, for that disturbs
		if err := s.side.Calm(ctx); err != nil {
			return c, err
		}
	}
	var used, took [2][]time.Duration
	for range a.rounds {
		for n, s := range servers {
			cpu, wall, err := s.round(ctx, a.requests)
			if err != nil {
				return c, fmt.Errorf("%w%s", err, s.side.Logs())
			}
			used[n] = append(used[n], cpu/time.Duration(a.requests))
			took[n] = append(took[n], wall/time.Duration(a.requests))
		}
	}
	for n := range servers {
		c.used[n] = side.Percentile(used[n], 50).Round(100 * time.Nanosecond)
		c.took[n] = side.Percentile(took[n], 50).Round(100 * time.Nanosecond)
	}
	return c, nil
}

// server is a side that has the object, and connections to it.
type server struct {
	side    *side.Side
	clients []*side.Client
}

func (a *audit) start(ctx context.Context, name string, flags []string) (*server, error) {
	s, err := side.Start(ctx, name, a.programs, side.Options{Flags: append(flags, "--disable-admission-plugins=ServiceAccount")})
	if err != nil {
		return nil, err
	}
	out := &server{side: s}
	for range a.clients {
		out.clients = append(out.clients, s.Client())
	}
	if err := out.clients[0].Create(ctx, path.Dir(object), `{"metadata":{"name":"`+path.Base(object)+`"}}`); err != nil {
		out.stop()
		return nil, err
	}
	return out, nil
}

func (s *server) stop() {
	for _, c := range s.clients {
		c.Close()
	}
	s.side.Stop()
}

// round sends so many requests over all connections, and returns the time of
// processors and the time that they took.
func (s *server) round(ctx context.Context, requests int) (cpu, wall time.Duration, err error) {
	before, err := s.side.CPU()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(s.clients))
	for n, c := range s.clients {
		wg.Go(func() {
			for i := n; i < requests && errs[n] == nil; i += len(s.clients) {
				errs[n] = c.Do(ctx, side.Request{Method: http.MethodGet, Path: object}, io.Discard)
			}
		})
	}
	wg.Wait()
	wall = time.Since(began)
	after, err := s.side.CPU()
	return after - before, wall, errors.Join(append(errs, err)...)
}
