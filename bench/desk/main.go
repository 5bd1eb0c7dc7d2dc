// Command desk measures what a server pays for knowing what happens in it: flight recorder, findings, series of the console, and the
// history of objects. Two kanzens run side by side, one as it is by default and one without all of that. Both are sent the same requests at
// the same steady rate, in turns, and the processor time of each turn is read. Machines that are not quiet differ by more from turn to turn
// than the servers do; what the first server's profiles say of itself depends less on that.
//
//	go run ./desk -kanzen ../bin/kanzen
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
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

const (
	objects = 300
	path    = "/api/v1/namespaces/default/configmaps"
)

// desk is how much of it there is.
type desk struct {
	rate, clients, writes, turns int
	length                       time.Duration // of a turn
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "desk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var d desk
	kanzen := flag.String("kanzen", "", "a kanzen binary; none: it is built from this repository")
	without := flag.String("without", "--flight-recorder-memory=0 --history=0", "flags of the server that knows nothing")
	flag.IntVar(&d.rate, "rate", 5000, "requests per second")
	flag.IntVar(&d.clients, "clients", 16, "connections")
	flag.IntVar(&d.writes, "writes", 5, "per cent of the requests that change an object; the others read one")
	flag.IntVar(&d.turns, "turns", 12, "turns of each server")
	flag.DurationVar(&d.length, "length", 10*time.Second, "of each turn")
	flag.Parse()
	programs, err := side.Build(ctx, *kanzen, "", side.Kanzen)
	if err != nil {
		return err
	}
	var servers [2]*side.Side
	for n, flags := range [][]string{nil, strings.Fields(*without)} {
		if servers[n], err = side.Start(ctx, side.Kanzen, programs, side.Options{Flags: flags}); err != nil {
			return err
		}
		defer servers[n].Stop()
		if err := fill(ctx, servers[n]); err != nil {
			return err
		}
	}
	fmt.Printf("%s\n%d requests per second, %d%% of them writes, on %d connections; %d turns of %v for each server\n", side.Machine(), d.rate, d.writes, d.clients, d.turns, d.length)
	return d.compare(ctx, servers)
}

// fill makes the objects that are read and changed.
func fill(ctx context.Context, s *side.Side) error {
	c := s.Client()
	defer c.Close()
	for n := range objects {
		if err := c.Create(ctx, path, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"text":%q}}`, n, side.Text(n, 500))); err != nil {
			return err
		}
	}
	return s.Calm(ctx)
}

// compare takes turns and prints the medians and their difference, in per cent of one processor.
func (d *desk) compare(ctx context.Context, servers [2]*side.Side) error {
	var used, memory [2][]float64
	var differences, prices []float64
	for turn := range d.turns + 1 {
		for n := range servers {
			at := (n + turn) % 2 // each is as often the first
			got, err := d.turn(ctx, servers[at])
			if err != nil {
				return err
			}
			if turn == 0 { // which warms up
				continue
			}
			used[at] = append(used[at], got.used)
			memory[at] = append(memory[at], got.memory)
			if at == 0 {
				prices = append(prices, got.used*got.own.price())
			}
		}
		if turn > 0 {
			differences = append(differences, used[0][turn-1]-used[1][turn-1])
		}
	}
	fmt.Printf("with:     %5.1f%% of a processor, %6.1f MiB without mapped files\n", side.Median(used[0]), side.Median(memory[0]))
	fmt.Printf("without:  %5.1f%% of a processor, %6.1f MiB\n", side.Median(used[1]), side.Median(memory[1]))
	fmt.Printf("the difference: %s\n", ofProcessor(differences))
	fmt.Printf("the price by the profiles: %s\n", ofProcessor(prices))
	return nil
}

// ofProcessor says the median and the limits of some shares of a processor, in per cent.
func ofProcessor(shares []float64) string {
	slices.Sort(shares)
	m := side.Median(shares)
	return fmt.Sprintf("%.2f%% of a processor (%.2f to %.2f), %.2f%% of the machine's %d", m, shares[0], shares[len(shares)-1], m/float64(runtime.NumCPU()), runtime.NumCPU())
}

// turned is what a turn showed: how much of a processor the server used, in per cent, its memory in MiB, and its profiles.
type turned struct {
	used, memory float64
	own          profiled
}

// turn sends requests to a server for a while. A machine that stands still for a moment, as disks make it do, gets a second try.
func (d *desk) turn(ctx context.Context, s *side.Side) (turned, error) {
	for try := range 3 {
		out, took, err := d.try(ctx, s)
		if err != nil || took <= d.length*11/10 {
			return out, err
		}
		fmt.Printf("%s, try %d: %v for what takes %v\n", s.Name, try+1, took, d.length)
	}
	return turned{}, fmt.Errorf("%s: the machine does not keep up with %d requests per second", s.Name, d.rate)
}

func (d *desk) try(ctx context.Context, s *side.Side) (out turned, took time.Duration, err error) {
	before, err := s.CPU()
	if err != nil {
		return out, 0, err
	}
	began := time.Now()
	failed := make([]error, d.clients+1)
	var wg sync.WaitGroup
	wg.Go(func() { out.own, failed[d.clients] = profiles(ctx, s, d.length-time.Second) })
	for n := range d.clients {
		wg.Go(func() { failed[n] = d.send(ctx, s, n) })
	}
	wg.Wait()
	took = time.Since(began)
	if err := errors.Join(failed...); err != nil {
		return out, took, err
	}
	after, err := s.CPU()
	if err != nil {
		return out, took, err
	}
	out.used = 100 * (after - before).Seconds() / took.Seconds()
	out.memory, err = s.Anonymous()
	return out, took, err
}

// send sends one connection's share of a turn. A request that is late does not delay those after it.
func (d *desk) send(ctx context.Context, s *side.Side, client int) error {
	c := s.Client()
	defer c.Close()
	interval := time.Second * time.Duration(d.clients) / time.Duration(d.rate)
	due := time.Now().Add(interval * time.Duration(client) / time.Duration(d.clients))
	for n := range int(d.length / interval) {
		if err := side.Sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		due = due.Add(interval)
		if err := c.Do(ctx, d.request(n*d.clients+client), io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// request is the nth request of a turn.
func (d *desk) request(n int) side.Request {
	object := fmt.Sprintf("%s/c%d", path, n%objects)
	if n%100 < d.writes {
		return side.Request{Method: http.MethodPatch, Path: object, ContentType: "application/merge-patch+json", Body: fmt.Sprintf(`{"data":{"n":"%d"}}`, time.Now().UnixNano())}
	}
	return side.Request{Method: http.MethodGet, Path: object}
}
