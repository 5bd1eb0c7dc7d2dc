package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/kanzen-io/kanzen/bench/side"
)

const module = "github.com/kanzen-io/kanzen/"

// packages are those whose functions are the desk's, below internal/.
var packages = []string{"observe/recorder", "observe/findings", "process/history", "store/past"}

// tree is the module of the history's tree, which also works by itself. The server's objects are not in one: they are in etcd.
const tree = "github.com/cockroachdb/pebble/"

// profiled is what a server's own profiles say of a turn: the desk's share of its processor time and of the bytes it allocated, and the
// share of the garbage collector, all of them of 1.
type profiled struct{ own, allocated, collector float64 }

// price is what the desk takes of the server's processor time, of 1, with its share of collecting the garbage.
func (p profiled) price() float64 { return p.own + p.allocated*p.collector }

// profiles profiles a server for whole seconds.
func profiles(ctx context.Context, s *side.Side, length time.Duration) (profiled, error) {
	type answer struct {
		profile *profile.Profile
		err     error
	}
	allocations := make(chan answer, 1)
	go func() {
		p, err := fetch(ctx, s, "allocs", length)
		allocations <- answer{p, err}
	}()
	cpu, err := fetch(ctx, s, "profile", length)
	a := <-allocations
	if err := errors.Join(err, a.err); err != nil {
		return profiled{}, err
	}
	return profiled{own: share(cpu, desks), allocated: share(a.profile, desks), collector: share(cpu, collects)}, nil
}

func fetch(ctx context.Context, s *side.Side, name string, length time.Duration) (*profile.Profile, error) {
	c := s.Client()
	defer c.Close()
	var b bytes.Buffer
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: fmt.Sprintf("/debug/pprof/%s?seconds=%d", name, int(length.Seconds()))}, &b); err != nil {
		return nil, err
	}
	return profile.Parse(&b)
}

// share is what samples that are chosen have of a profile's second value: nanoseconds, or allocated bytes.
func share(p *profile.Profile, chosen func(stack []string) bool) float64 {
	var some, all int64
	for _, s := range p.Sample {
		var stack []string // the innermost function first
		for _, l := range s.Location {
			for _, line := range l.Line {
				stack = append(stack, line.Function.Name)
			}
		}
		all += s.Value[1]
		if chosen(stack) {
			some += s.Value[1]
		}
	}
	return float64(some) / float64(max(all, 1))
}

// desks reports whether a stack is the desk's. Its filter is around the rest of the chain: it stands for itself only when it is
// the innermost function of the module's.
func desks(stack []string) bool {
	innermost := true
	for _, name := range stack {
		path, ours := strings.CutPrefix(name, module+"internal/")
		if strings.HasPrefix(name, tree) {
			return true
		}
		if !ours {
			continue
		}
		if slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"/") }) &&
			(innermost || !strings.HasSuffix(path, ".Filter.func1")) {
			return true
		}
		innermost = false
	}
	return false
}

// collects reports whether a stack is the garbage collector's: its workers', or that of a goroutine that must help.
func collects(stack []string) bool {
	return slices.ContainsFunc(stack, func(name string) bool {
		return name == "runtime.gcBgMarkWorker" || name == "runtime.gcAssistAlloc" || name == "runtime.bgsweep" || name == "runtime.bgscavenge"
	})
}
