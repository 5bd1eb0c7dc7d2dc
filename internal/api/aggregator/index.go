package aggregator

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/store"
)

// serviceForm is the form of APIServices in the index.
type serviceForm struct{}

// registered is an APIService and the key of its backend.
type registered struct {
	*service
	key backendKey
}

// follow keeps the index up to date with the APIServices until ctx ends. Its goroutine alone changes the index.
func (s *Server) follow(ctx context.Context) {
	c := &changes{}
	store.NewIndex(s.APIServices.View(), serviceForm{}, s.newService).Follow(ctx, func(change store.Change[*registered]) {
		if change.Err != nil {
			s.Log.Error("an APIService cannot be read; what it registers is not served", "name", change.Key, "error", change.Err)
		}
		if change.Gone || change.Err != nil {
			s.remove(change.Key, c)
		} else {
			s.put(ctx, change.Now, c)
		}
	}, func(rev int64) {
		s.publish(c)
		c = &changes{}
		s.progress.Reached(rev)
	})
}

// changes are what changed APIServices mean for the catalog, so that a thousand of them are one new catalog.
type changes struct {
	claimed []*catalog.Remote
	freed   []schema.GroupVersion
	begun   []*backend
	// woken run once the catalog has the claims: they replace them.
	woken []*loop
}

// publish applies changes to the catalog, and starts the loops of new backends.
func (s *Server) publish(c *changes) {
	if len(c.freed) > 0 {
		s.Catalog.RemoveRemotes(c.freed...)
	}
	if len(c.claimed) > 0 {
		s.Catalog.PutRemotes(c.claimed...)
	}
	for _, b := range c.begun {
		s.running(b)
	}
	for _, l := range c.woken {
		l.wake()
	}
}

// put adds a new or changed APIService to the index.
func (s *Server) put(ctx context.Context, r *registered, c *changes) {
	v, key := r.service, r.key
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.services[v.name]
	if old != nil && old.GroupVersion != v.GroupVersion { // the API does not allow this, but somebody may have written into the storage
		s.removeLocked(old, c)
		old = nil
	}
	if v.GroupVersion == own {
		v.local = true
	}
	if !v.local {
		s.claimLocked(ctx, v, key, old, c)
	}
	s.services[v.name] = v
	if s.byGroup[v.Group] == nil {
		s.byGroup[v.Group] = map[string]bool{}
	}
	s.byGroup[v.Group][v.name] = true
	if s.pending[v.name] && v.isAvailable() {
		delete(s.pending, v.name)
	}
	if old != nil && old.backend != nil && old.backend != v.backend {
		s.leaveLocked(old, v.local, c)
	}
	if v.local || old == nil || old.local {
		s.groups.Add(v.Group)
	}
}

// claimLocked gives a remote APIService its backend and its claim in the catalog. s.mu is held.
func (s *Server) claimLocked(ctx context.Context, v *service, key backendKey, old *service, c *changes) {
	b := s.backends[key]
	begun := b == nil
	if begun {
		b = newBackend(ctx, s, key)
		s.backends[key] = b
		c.begun = append(c.begun, b)
	}
	doc := unknown(v.Version)
	v.backend, v.claim = b, &claim{server: s}
	if old != nil && old.claim != nil {
		v.claim = old.claim
		if old.backend == b && old.uid == v.uid {
			if now := s.Catalog.Now().Remote(v.GroupVersion); now != nil {
				doc = now.Discovery
			}
		}
	}
	v.claim.service.Store(v)
	b.services[v.name] = v
	same := old != nil && old.backend == b && old.uid == v.uid
	switch {
	case !same && !begun:
		c.woken = append(c.woken, b.loops()...)
	case same && old.available.Status != v.available.Status:
		c.woken = append(c.woken, b.discover, b.document)
	case same && old.groupPriority == v.groupPriority && old.versionPriority == v.versionPriority:
		return // the catalog has nothing of what has changed
	case same:
		c.woken = append(c.woken, b.discover) // what it finds meanwhile is replaced here
	}
	c.claimed = append(c.claimed, v.remote(doc))
}

// leaveLocked takes an APIService from its backend, which ends with the last one; freed gives its group and version back
// to this server. s.mu is held.
func (s *Server) leaveLocked(v *service, freed bool, c *changes) {
	b := v.backend
	if b.services[v.name] == v {
		delete(b.services, v.name)
	}
	if len(b.services) == 0 {
		delete(s.backends, b.key)
		b.close()
	}
	s.documents.Add(1)
	if freed {
		c.freed = append(c.freed, v.GroupVersion)
	}
}

// remove removes an APIService from the index.
func (s *Server) remove(name string, c *changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.services[name]; v != nil {
		s.removeLocked(v, c)
	}
}

// removeLocked removes an APIService that is in the index. s.mu is held.
func (s *Server) removeLocked(v *service, c *changes) {
	delete(s.services, v.name)
	delete(s.byGroup[v.Group], v.name)
	if len(s.byGroup[v.Group]) == 0 {
		delete(s.byGroup, v.Group)
	}
	if v.backend != nil {
		s.leaveLocked(v, true, c)
	}
	s.groups.Add(v.Group)
}

// ofGroup returns the APIServices of a group.
func (s *Server) ofGroup(group string) []*service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*service, 0, len(s.byGroup[group]))
	for name := range s.byGroup[group] {
		out = append(out, s.services[name])
	}
	return out
}
