package crd

import (
	"context"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/store"
)

// outlineForm is the form of definitions in the index.
type outlineForm struct{}

// follow keeps the index up to date with the view of definitions until ctx ends, and then calls ended.
func (s *Server) follow(ctx context.Context, ended func()) {
	store.NewIndex(s.Definitions.View(), outlineForm{}, func(_ context.Context, i *store.Item) (*definition, error) { return newDefinition(i) }).Join(ctx, ended, func(c store.Change[*definition]) {
		s.read(c.Key, c.Gone || c.Err == nil)
		switch {
		case c.Gone:
			s.remove(c.Key)
		case c.Err != nil:
			s.Log.Error("a definition cannot be read; what it defines is not served", "name", c.Key, "error", c.Err)
			s.remove(c.Key)
		default:
			s.put(c.Now)
		}
	}, s.progress.Reached)
}

// read notes whether a definition could be read.
func (s *Server) read(name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		delete(s.unreadable, name)
	} else {
		s.unreadable[name] = true
	}
}

// Complete reports whether all definitions could be read. If not, it is not known what else they define.
func (s *Server) Complete() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.unreadable) == 0
}

// put adds a definition that is new or changed.
func (s *Server) put(d *definition) {
	s.mu.Lock()
	g := s.groups[d.group]
	if g == nil {
		g = map[string]*definition{}
		s.groups[d.group] = g
	}
	old := g[d.name]
	if old != nil && old.item.Rev > d.item.Rev {
		s.mu.Unlock()
		return // the controller has written a newer one, which will follow
	}
	if old != nil && servesAlike(old, d) {
		d.serving = old.serving
	} else {
		d.serving = newServing(s, d)
		if old != nil && d.beganDeletion(old) {
			d.serving.before = old.serving
		}
	}
	if old != nil && old.uid != d.uid {
		old.serving.forget() // before the new definition is served, whose objects lie in the same place
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
	if old == nil || old.serving == d.serving || old.serving == d.serving.before {
		return
	}
	old.serving.retire()
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
