// Command restart measures what watching clients notice when the two API servers of a cluster are restarted one after the
// other: kanzen, and kube-apiserver beside it if there is one, each on the same kind of etcd.
//
//	go run ./restart -kanzen ../kanzen -peer-bin peer/bin
//
// A client lists once and watches, as informers do. When its watch ends it goes to the other server and watches from the last
// revision that it has seen; only if it is told that this is too old (410) it lists again. An object is written every 50 ms all
// the time, so that a client that misses, doubles or reorders an event is found out. The command fails if a client of kanzen
// lists again or sees anything but each event once, in order. kube-apiserver is held to nothing.
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

const (
	path = "/api/v1/namespaces/default/configmaps"
	pace = 50 * time.Millisecond // of writes
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "restart:", err)
		os.Exit(1)
	}
}

// restart is how much of it there is.
type restart struct {
	programs         side.Programs
	clients, objects int
}

func run(ctx context.Context) (err error) {
	var r restart
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd (also as PEER_BIN); none: they are built")
	only := flag.String("only", "", "one side alone: kanzen or peer")
	flag.IntVar(&r.clients, "clients", 1000, "watching clients")
	flag.IntVar(&r.objects, "objects", 500, "objects that are there, of 2 KB")
	flag.Parse()
	if r.programs, err = side.Build(ctx, *kanzen, *peerBin, side.Peer, side.Kanzen); err != nil {
		return err
	}
	fmt.Printf("%s\n%d clients, %d objects, a write every %v\n", side.Machine(), r.clients, r.objects, pace)
	for _, name := range []string{side.Peer, side.Kanzen} {
		if *only == "kanzen" && name != side.Kanzen || *only == "peer" && name != side.Peer {
			continue
		}
		o, err := r.measure(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("\n%s\n%s", name, o)
		if name == side.Kanzen {
			if err := o.judge(); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs one side.
func (r *restart) measure(ctx context.Context, name string) (*outcome, error) {
	etcd, address, err := side.StartEtcd(r.programs)
	if err != nil {
		return nil, err
	}
	defer etcd.Stop()
	var servers []*side.Side
	for range 2 {
		s, err := side.Start(ctx, name, r.programs, side.Options{Etcd: address})
		if err != nil {
			return nil, err
		}
		defer s.Stop()
		servers = append(servers, s)
	}
	if err := r.fill(ctx, servers[0]); err != nil {
		return nil, err
	}
	working, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	clients := make([]*client, r.clients)
	for n := range clients {
		clients[n] = &client{servers: servers, at: n % 2}
		wg.Go(func() { clients[n].run(working) })
	}
	var marks atomic.Int64
	wg.Go(func() { write(working, servers, &marks) })
	seen := func() error { return awaitMark(ctx, clients, marks.Load()+1) }
	if err := seen(); err != nil {
		return nil, err
	}
	before := total(clients)
	o := &outcome{clients: r.clients}
	for n, s := range servers {
		began := time.Now()
		if err := s.Restart(ctx); err != nil {
			return nil, fmt.Errorf("restart server %d: %w", n, err)
		}
		o.restarts = append(o.restarts, time.Since(began))
		if err := seen(); err != nil {
			return nil, err
		}
	}
	if err := side.Sleep(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	if err := seen(); err != nil {
		return nil, err
	}
	o.bytes = total(clients) - before
	o.marks = marks.Load()
	for _, c := range clients {
		o.add(c)
	}
	return o, nil
}

func (r *restart) fill(ctx context.Context, s *side.Side) error {
	c := s.Client()
	defer c.Close()
	for n := range r.objects {
		if err := c.Create(ctx, path, fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"o-%d"},"data":{"a":%q}}`, n, strings.Repeat("x", 2000))); err != nil {
			return err
		}
	}
	return c.Create(ctx, path, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"mark"}}`)
}

// write writes one mark after the other, through whichever server is there. A mark whose fate is not known is written again,
// which changes nothing if it had been written.
func write(ctx context.Context, servers []*side.Side, marks *atomic.Int64) {
	at := 0
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ctx.Err() == nil {
		c := servers[at].Client()
		var err error
		for err == nil {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = c.Do(attempt, side.Request{Method: http.MethodPatch, Path: path + "/mark", ContentType: "application/merge-patch+json",
				Body: fmt.Sprintf(`{"data":{"mark":"%d"}}`, marks.Load()+1)}, io.Discard)
			cancel()
			if err == nil {
				marks.Add(1)
				select {
				case <-tick.C:
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
		}
		c.Close()
		at = 1 - at
	}
}

// awaitMark waits until every client has seen a mark.
func awaitMark(ctx context.Context, clients []*client, mark int64) error {
	deadline := time.Now().Add(3 * time.Minute)
	for _, c := range clients {
		for c.mark.Load() < mark {
			if time.Now().After(deadline) {
				return fmt.Errorf("a client has seen mark %d, want %d", c.mark.Load(), mark)
			}
			if err := side.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

func total(clients []*client) (bytes int64) {
	for _, c := range clients {
		bytes += c.bytes.Load()
	}
	return bytes
}

// outcome is what clients have noticed.
type outcome struct {
	clients, ended, listed, wrong int
	marks, bytes                  int64
	restarts, gaps                []time.Duration
}

func (o *outcome) add(c *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.ended += len(c.gaps)
	o.gaps = append(o.gaps, c.gaps...)
	o.wrong += c.wrong
	if c.lists > 1 {
		o.listed++
	}
}

func (o *outcome) String() string {
	slices.Sort(o.gaps)
	at := func(share float64) time.Duration {
		if len(o.gaps) == 0 {
			return 0
		}
		return o.gaps[int(share*float64(len(o.gaps)-1))].Round(time.Millisecond)
	}
	var out strings.Builder
	for n, d := range o.restarts {
		fmt.Fprintf(&out, "  server %d: ready again %v after SIGTERM\n", n+1, d.Round(time.Millisecond))
	}
	fmt.Fprintf(&out, "  %d watches ended; %d of %d clients listed again; %d events missed, doubled or out of order of %d\n", o.ended, o.listed, o.clients, o.wrong, o.marks)
	fmt.Fprintf(&out, "  bytes read during the restarts: %.1f MB; from the end of a watch to the next event: median %v, 99%% %v, longest %v\n",
		float64(o.bytes)/1e6, at(0.5), at(0.99), at(1))
	return out.String()
}

func (o *outcome) judge() error {
	switch {
	case o.listed > 0:
		return fmt.Errorf("%d clients listed again", o.listed)
	case o.wrong > 0:
		return fmt.Errorf("%d events missed, doubled or out of order", o.wrong)
	case o.ended < o.clients/2:
		return errors.New("too few watches ended: the restarts were not noticed")
	}
	return nil
}
