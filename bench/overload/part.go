package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// others are those who notice the flood; their names are also their tokens.
var others = [...]struct {
	name    string
	every   time.Duration
	request func() side.Request
}{
	tenant: {"tenant", 10 * time.Millisecond, func() side.Request { return write(one) }},
	1:      {"node", 50 * time.Millisecond, renewal(lease + "/n")},
	2:      {"controller", 50 * time.Millisecond, renewal(leader + "/kube-controller-manager")},
}

// tenant is the one of the others who shares the flood's priority level, and
// does what it does.
const tenant = 0

// renewal keeps a lease. The time is another each time, for a patch that changes
// nothing is not written.
func renewal(path string) func() side.Request {
	return func() side.Request {
		return side.Request{Method: http.MethodPatch, Path: path, ContentType: "application/merge-patch+json",
			Body: fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))}
	}
}

// part is what others notice in a part of the time.
type part struct {
	series     [len(others)]series
	rates      *rates  // of the flood; nil if there is none
	processors float64 // that the server used beside it
}

// series are the times of one client's requests.
type series struct {
	took    []time.Duration
	refused int
}

func (s *series) at(percent int) time.Duration {
	return side.Percentile(s.took, float64(percent)).Round(10 * time.Microsecond)
}

func (p *part) print(what string) {
	fmt.Println(what)
	for n := range p.series {
		s := &p.series[n]
		fmt.Printf("  %-11s p50 %s, p99 %s (%d requests, %d refused)\n", others[n].name+":", s.at(50), s.at(99), len(s.took), s.refused)
	}
	if r := p.rates; r != nil {
		fmt.Printf("  flood:      %.0f requests a second served, %.0f refused, %.0f failed\n", r.Served, r.Refused, r.Failed)
		fmt.Printf("  server:     %.1f of %d processors\n", p.processors, runtime.NumCPU())
	}
}

// measurePart sends the others' requests.
func measurePart(ctx context.Context, s *side.Side, length time.Duration) (p part, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	var errs [len(others)]error
	for n, o := range others {
		wg.Go(func() {
			c := side.NewClient(s.URL, o.name)
			defer c.Close()
			errs[n] = p.series[n].ask(ctx, c, o.every, o.request)
		})
	}
	wg.Wait()
	return p, errors.Join(errs[:]...)
}

// ask sends requests one after the other until the context ends.
func (s *series) ask(ctx context.Context, c *side.Client, every time.Duration, request func() side.Request) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		began := time.Now()
		err := c.Do(ctx, request(), io.Discard)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			s.took = append(s.took, time.Since(began))
		case side.Code(err) == http.StatusTooManyRequests:
			s.refused++
		default:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
