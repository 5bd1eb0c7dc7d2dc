package crd

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/store"
)

// follower keeps the index up to date with the view of definitions.
type follower struct {
	*Server
	caught func()
}

// Reset is part of store.Follower.
func (f *follower) Reset(items []*store.Item) {
	gone := map[string]bool{}
	f.mu.RLock()
	for _, g := range f.groups {
		for name := range g {
			gone[name] = true
		}
	}
	f.mu.RUnlock()
	for n, d := range readAll(items, f.Guard) {
		delete(gone, items[n].Key)
		f.put(items[n], d.definition, d.err)
	}
	for name := range gone {
		f.remove(name)
	}
}

// Change is part of store.Follower.
func (f *follower) Change(e *store.Event) {
	if e.Item == nil {
		f.remove(e.Prev.Key)
		return
	}
	d, err := newDefinition(e.Item)
	f.put(e.Item, d, err)
}

// Caught is part of store.Follower.
func (f *follower) Caught(rev int64) {
	f.caught()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev = rev
	close(f.moved)
	f.moved = make(chan struct{})
}

// synced waits until definitions have been read, and then until the catalog contains all acknowledged writes. Before
// that, a client would get a wrong 404.
func (s *Server) synced(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.sync(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sync waits until the index contains all acknowledged writes, so that a resource is served once a client has seen
// Established.
func (s *Server) sync(ctx context.Context) error {
	if err := s.Store.Fresh(ctx); err != nil {
		return err
	}
	want, err := s.Definitions.View().Changed(ctx)
	if err != nil {
		return err
	}
	for {
		s.mu.RLock()
		have, moved := s.rev, s.moved
		s.mu.RUnlock()
		if have >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readAll decodes definitions on all processors: thousands of them would delay the start.
func readAll(items []*store.Item, g *guard.Guard) []read {
	out := make([]read, len(items))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(items)); n = next.Add(1) - 1 {
				out[n].err = g.Call("reading a definition", func() (err error) {
					out[n].definition, err = newDefinition(items[n])
					return err
				})
			}
		})
	}
	wg.Wait()
	return out
}

// read is the result of decoding a definition.
type read struct {
	definition *definition
	err        error
}

// put adds a definition that is new or changed, or that could not be decoded.
func (s *Server) put(i *store.Item, d *definition, err error) {
	if err != nil {
		s.Log.Error("a definition cannot be read; what it defines is not served", "name", i.Key, "error", err)
		s.remove(i.Key)
		return
	}
	s.mu.Lock()
	g := s.groups[d.group]
	if g == nil {
		g = map[string]*definition{}
		s.groups[d.group] = g
	}
	old := g[d.name]
	if old != nil && old.item.Rev > i.Rev {
		s.mu.Unlock()
		return // the controller has written a newer one, which will follow
	}
	if old != nil && servesAlike(old, d) {
		d.serving = old.serving
	} else {
		d.serving = newServing(s, d)
	}
	g[d.name] = d
	s.publish(d)
	var look []string
	if d.statusStale {
		look = append(look, d.name)
	}
	if d.young(s.Clock.Now()) {
		look = append(look, s.latecomers(d)...)
	}
	s.mu.Unlock()
	s.replaced(old, d)
	for _, name := range look {
		s.control.changed.Add(name)
	}
}

// replaced ends the serving of the previous definition.
func (s *Server) replaced(old, d *definition) {
	if old == nil || old.serving == d.serving {
		return
	}
	old.serving.retire()
	if old.uid != d.uid {
		old.serving.forget()
	}
}

// wrote indexes a definition that the controller has written, before the log delivers it: the accepted names are taken
// from now on.
func (s *Server) wrote(obj *apiextensionsv1.CustomResourceDefinition, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.groups[obj.Spec.Group][obj.Name]
	if old == nil || old.uid != obj.UID || old.item.Rev >= rev {
		return
	}
	d := *old
	d.accepted = obj.Status.AcceptedNames
	s.groups[obj.Spec.Group][obj.Name] = &d
	s.publish(&d)
}

// remove removes a definition.
func (s *Server) remove(name string) {
	group, _ := splitName(name)
	s.mu.Lock()
	d := s.groups[group][name]
	if d != nil {
		delete(s.groups[group], name)
		if len(s.groups[group]) == 0 {
			delete(s.groups, group)
		}
		s.withdraw(name)
	}
	s.mu.Unlock()
	if d == nil {
		return
	}
	d.serving.retire()
	d.serving.forget()
	s.control.retryConflicts(group, name)
}

// splitName splits a definition's name.
func splitName(name string) (group, plural string) {
	plural, group, _ = strings.Cut(name, ".")
	return group, plural
}

// established returns the served definitions, sorted by group and name.
func (s *Server) established() []*definition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*definition
	for _, g := range s.groups {
		for _, d := range g {
			if d.established && d.servable() {
				out = append(out, d)
			}
		}
	}
	slices.SortFunc(out, func(a, b *definition) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name)) })
	return out
}
