// Command waiting measures the memory of watches that wait for events, in kanzen and in kube-apiserver beside it: what a watch
// with a connection of its own costs, and what one costs that shares a few connections with many.
//
//	go run ./waiting -kanzen ../kanzen -peer-bin peer/bin
//
// The difference between the two is what a connection costs. Resident memory is read before the watches begin and once they
// have waited for a while, since stacks and heap shrink only at the next collections.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

const path = "/api/v1/namespaces/default/configmaps"

// opening is how many watches are opened at a time.
const opening = 8

type waiting struct {
	programs side.Programs
	watches  int
	rest     time.Duration
	profiles string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "waiting:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var w waiting
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	peerBin := flag.String("peer-bin", os.Getenv("PEER_BIN"), "directory with kube-apiserver and etcd (also as PEER_BIN); none: they are built")
	only := flag.String("only", "", "one side alone: kanzen or peer")
	flag.IntVar(&w.watches, "watches", 3000, "watches that wait")
	flag.DurationVar(&w.rest, "rest", 15*time.Second, "how long they wait before memory is read")
	flag.StringVar(&w.profiles, "profiles", "", "directory for profiles of the heap and of goroutines, taken after the measurement")
	flag.Parse()
	names := []string{side.Peer, side.Kanzen}
	switch *only {
	case "kanzen":
		names = names[1:]
	case "peer":
		names = names[:1]
	}
	if w.programs, err = side.Build(ctx, *kanzen, *peerBin, names...); err != nil {
		return err
	}
	fmt.Printf("%s\n%d watches that wait\n", side.Machine(), w.watches)
	for _, connections := range []int{w.watches, 4} {
		for _, name := range names {
			if err := w.measure(ctx, name, connections); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// measure opens the watches over a number of connections, waits, and prints what the side's memory has grown by.
func (w *waiting) measure(ctx context.Context, name string, connections int) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	streams := (w.watches + connections - 1) / connections
	s, err := side.Start(ctx, name, w.programs, side.Options{
		Flags: []string{"--http2-max-streams-per-connection", strconv.Itoa(max(streams, 100))}})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := w.open(ctx, s, 8, &reading, []*side.Client{s.Client()}); err != nil { // what the first watch makes is not counted
		return err
	}
	if err := s.Calm(ctx); err != nil {
		return err
	}
	before, err := s.RSS()
	if err != nil {
		return err
	}
	clients := make([]*side.Client, connections)
	for n := range clients {
		clients[n] = s.Client()
		defer clients[n].Close()
	}
	if err := w.open(ctx, s, w.watches, &reading, clients); err != nil {
		return err
	}
	if err := side.Sleep(ctx, w.rest); err != nil {
		return err
	}
	after, err := s.RSS()
	if err != nil {
		return err
	}
	fmt.Printf("%-22s %5d connections: %6.1f MiB before, %6.1f MiB after: %5.1f KiB a watch\n",
		name, connections, before, after, (after-before)*1024/float64(w.watches))
	return w.profile(ctx, s, connections)
}

// open opens a number of watches, over the clients in turn.
func (w *waiting) open(ctx context.Context, s *side.Side, watches int, reading *sync.WaitGroup, clients []*side.Client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	_ = cancel // the watches last as long as the parent
	slots := make(chan struct{}, opening)
	var opened sync.WaitGroup
	for n := range watches {
		slots <- struct{}{}
		opened.Go(func() {
			defer func() { <-slots }()
			res, err := clients[n%len(clients)].Open(ctx, side.Request{Method: http.MethodGet, Path: path + "?watch=1&timeoutSeconds=3600"})
			if err != nil {
				cancel(err)
				return
			}
			reading.Go(func() {
				defer res.Body.Close()
				_, _ = io.Copy(io.Discard, res.Body) // ends with the context
			})
		})
	}
	opened.Wait()
	return context.Cause(ctx)
}

// profile keeps what the server says of its heap and goroutines.
func (w *waiting) profile(ctx context.Context, s *side.Side, connections int) error {
	if w.profiles == "" {
		return nil
	}
	c := s.Client()
	defer c.Close()
	for name, query := range map[string]string{"heap": "", "goroutine": "?debug=1"} {
		f, err := os.Create(filepath.Join(w.profiles, fmt.Sprintf("%s-%d.%s", s.Name, connections, name)))
		if err != nil {
			return err
		}
		err = c.Do(ctx, side.Request{Method: http.MethodGet, Path: "/debug/pprof/" + name + query}, f)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
