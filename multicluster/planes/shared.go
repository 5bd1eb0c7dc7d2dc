package planes

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// Annotation of an object in the view of all planes names its plane. The server sets it, and nobody else can.
const Annotation = "planes.kanzen.io/plane"

// shared is an informer over the objects of a kind in all planes. It keeps those of each plane in a store of its own, so that a
// plane's reads and events cost what that plane has, and not what all have.
//
// It is a toolscache.SharedIndexInformer as far as the cache of controller-runtime asks for one, which runs it. Nothing else sees it;
// what it does not have would panic.
type shared struct {
	toolscache.SharedIndexInformer
	source wholeLists
	kind   runtime.Object
	resync time.Duration

	mu        sync.RWMutex
	slices    map[string]*slice        // by the names of planes; guarded by mu
	indexers  toolscache.Indexers      // of each slice; guarded by mu
	transform toolscache.TransformFunc // guarded by mu

	synced  chan struct{}  // closed when the first list is in the slices
	ready   bool           // whether synced is closed; guarded by mu
	stopped bool           // guarded by mu
	queues  sync.WaitGroup // the goroutines that deliver events; none begins when stopped
}

// wholeLists has a reflector begin with a list. If it began with a stream it would collect that by namespace and name, which objects
// of different planes have in common.
type wholeLists struct {
	toolscache.ListerWatcher
	toolscache.ListerWatcherWithContext
}

// IsWatchListSemanticsUnSupported is what reflectors ask for.
func (wholeLists) IsWatchListSemanticsUnSupported() bool { return true }

// slice is what one plane has of a kind, and who wants to hear of it.
type slice struct {
	toolscache.Indexer
	listeners map[*listener]bool
}

func newShared(source toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	lists := wholeLists{source, toolscache.ToListerWatcherWithContext(source)}
	return &shared{source: lists, kind: kind, resync: resync, slices: map[string]*slice{}, indexers: maps.Clone(indexers), synced: make(chan struct{})}
}

// RunWithContext lists and watches until ctx ends, and returns when no event is delivered any more.
func (s *shared) RunWithContext(ctx context.Context) {
	toolscache.NewReflectorWithOptions(s.source, s.kind, s, toolscache.ReflectorOptions{ResyncPeriod: s.resync}).RunWithContext(ctx)
	s.mu.Lock()
	s.stopped = true
	for _, one := range s.slices {
		for l := range one.listeners {
			l.close()
		}
	}
	s.mu.Unlock()
	s.queues.Wait()
}

// HasSynced is part of toolscache.SharedIndexInformer, as all that follows.
func (s *shared) HasSynced() bool { return done(s.synced) }

// HasSyncedChecker completes with the first list.
func (s *shared) HasSyncedChecker() toolscache.DoneChecker {
	return checker{"list of all planes", s.synced}
}

// IsStopped reports whether it has run.
func (s *shared) IsStopped() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stopped
}

// GetIndexer returns an empty one, for a reader over all planes that nobody uses.
func (s *shared) GetIndexer() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
}

// SetTransform sets what is done to objects before they are kept.
func (s *shared) SetTransform(f toolscache.TransformFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transform = f
	return nil
}

// AddIndexers indexes all slices. Those of a name that is taken are left out: many clusters ask for the same.
func (s *shared) AddIndexers(more toolscache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range more {
		if s.indexers[name] != nil {
			continue
		}
		s.indexers[name] = f
		for _, one := range s.slices {
			if err := one.AddIndexers(toolscache.Indexers{name: f}); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the objects of a plane, which may be none.
func (s *shared) read(plane string) toolscache.Indexer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if one := s.slices[plane]; one != nil {
		return one
	}
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, maps.Clone(s.indexers))
}

// of returns the slice of a plane, which it makes if there is none. The caller holds mu, and calls tidy when it is done.
func (s *shared) of(plane string) *slice {
	one := s.slices[plane]
	if one == nil {
		one = &slice{toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, maps.Clone(s.indexers)), map[*listener]bool{}}
		s.slices[plane] = one
	}
	return one
}

// tidy forgets a slice that has nothing. The caller holds mu.
func (s *shared) tidy(plane string) {
	if one := s.slices[plane]; one != nil && len(one.listeners) == 0 && len(one.ListKeys()) == 0 {
		delete(s.slices, plane)
	}
}

// sliced takes the annotation off an object, which its plane does not have, and returns what it names.
func (s *shared) sliced(obj any) (plane string, out any, err error) {
	about, err := meta.Accessor(obj)
	if err != nil {
		return "", nil, err
	}
	annotations := about.GetAnnotations()
	if plane = annotations[Annotation]; plane == "" {
		return "", nil, fmt.Errorf("%s/%s has no annotation %s: what is listed is not the view of an export", about.GetNamespace(), about.GetName(), Annotation)
	}
	if delete(annotations, Annotation); len(annotations) == 0 {
		annotations = nil
	}
	about.SetAnnotations(annotations)
	if s.transform != nil {
		obj, err = s.transform(obj)
	}
	return plane, obj, err
}

// Add is part of toolscache.ReflectorStore.
func (s *shared) Add(obj any) error { return s.put(obj) }

// Update is part of toolscache.ReflectorStore.
func (s *shared) Update(obj any) error { return s.put(obj) }

func (s *shared) put(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	plane, obj, err := s.sliced(obj)
	if err != nil {
		return err
	}
	return s.of(plane).put(obj, false)
}

// put keeps an object and tells of it.
func (one *slice) put(obj any, initially bool) error {
	old, had, err := one.Get(obj)
	if err == nil {
		err = one.Indexer.Update(obj)
	}
	for l := range one.listeners {
		if had {
			l.push(event{old: old, now: obj})
		} else {
			l.push(event{now: obj, initially: initially})
		}
	}
	return err
}

// Delete is part of toolscache.ReflectorStore.
func (s *shared) Delete(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	plane, obj, err := s.sliced(obj)
	if err != nil {
		return err
	}
	defer s.tidy(plane)
	one := s.of(plane)
	_, had, err := one.Get(obj)
	if err != nil || !had {
		return err
	}
	for l := range one.listeners {
		l.push(event{old: obj})
	}
	return one.Indexer.Delete(obj)
}

// Replace is part of toolscache.ReflectorStore: what is not in a list is gone.
func (s *shared) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]map[string]bool{} // by planes and keys
	for _, obj := range list {
		plane, obj, err := s.sliced(obj)
		if err != nil {
			return err
		}
		key, err := toolscache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		if there[plane] == nil {
			there[plane] = map[string]bool{}
		}
		there[plane][key] = true
		if err := s.of(plane).put(obj, !s.ready); err != nil {
			return err
		}
	}
	for plane, one := range s.slices {
		for _, key := range one.ListKeys() {
			if !there[plane][key] {
				one.lost(key)
			}
		}
		s.tidy(plane)
	}
	if !s.ready {
		s.begin()
	}
	return nil
}

// lost removes an object of which it is not known how it was deleted.
func (one *slice) lost(key string) {
	obj, had, err := one.GetByKey(key)
	if err != nil || !had {
		return
	}
	for l := range one.listeners {
		l.push(event{old: toolscache.DeletedFinalStateUnknown{Key: key, Obj: obj}})
	}
	_ = one.Indexer.Delete(obj)
}

// begin says that the first list is there. The caller holds mu.
func (s *shared) begin() {
	s.ready = true
	close(s.synced)
	for _, one := range s.slices {
		for l := range one.listeners {
			l.push(event{})
		}
	}
}

// Resync is part of toolscache.ReflectorStore: it tells those who want it of all objects again.
func (s *shared) Resync() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, one := range s.slices {
		for l := range one.listeners {
			for _, obj := range one.List() {
				if l.resyncs {
					l.push(event{old: obj, now: obj})
				}
			}
		}
	}
	return nil
}

// listen has a handler told of the objects of a plane, first of those that are there.
func (s *shared) listen(plane string, handler toolscache.ResourceEventHandler, resyncs bool) (*listener, error) {
	l := &listener{handler: handler, plane: plane, resyncs: resyncs, running: &s.queues, synced: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, fmt.Errorf("%T: the cache has stopped", s.kind)
	}
	one := s.of(plane)
	for _, obj := range one.List() {
		l.push(event{now: obj, initially: true})
	}
	one.listeners[l] = true
	if s.ready {
		l.push(event{})
	}
	return l, nil
}

// ignore ends that.
func (s *shared) ignore(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.slices[l.plane]; one != nil {
		delete(one.listeners, l)
		s.tidy(l.plane)
	}
	l.close()
}
