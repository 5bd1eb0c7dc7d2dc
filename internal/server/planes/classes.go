package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file has the storage classes: etcds in which planes lie (--planes-storage). The log of the root is one too, without a name.

// class is one of them. Each has its own places for planes that start: those of one that does not answer hold up none of another.
type class struct {
	name  string // "": the log of the root
	db    store.DB
	wakes chan struct{} // bounds how many planes start at a time
	// exports are those among the planes that lie in it.
	exports *exports.Exports

	looking sync.Mutex // held while it is asked: answers are taken up in the order of the questions

	mu    sync.Mutex
	away  error     // why it does not answer; nil: it does; guarded by mu
	since time.Time // when that was noticed; guarded by mu
	size  kv.Size   // as it was last seen; guarded by mu
	word  word      // what Planes say of it; guarded by mu
}

const (
	// lookEvery is how often it is looked whether a storage class answers, and answerWithin how long that may take.
	lookEvery, answerWithin = 2 * time.Second, 2 * time.Second
	// classPatience bounds what is asked of a storage class beside the requests of a plane.
	classPatience = 10 * time.Second
)

// newClasses makes those of the settings, and that of the root.
func (f *Fleet) newClasses() {
	f.classes = map[string]*class{"": {db: f.on.DB, wakes: make(chan struct{}, 2*workers)}}
	for _, c := range f.on.Classes {
		f.classes[c.Name] = &class{name: c.Name, db: c.DB, wakes: make(chan struct{}, 2*workers)}
	}
	for _, c := range f.classes {
		c.exports = f.newExports(c)
	}
}

// placeOf is what messages call the place where planes of a storage class lie.
func placeOf(class string) string {
	if class == "" {
		return "the log of the root"
	}
	return fmt.Sprintf("the storage class %q", class)
}

// classNames are those that Planes can name.
func (f *Fleet) classNames() (names []string) {
	for name := range f.classes {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unknownClassError says that the settings have no storage class of a name.
type unknownClassError struct {
	name  string
	known []string
}

// Error is part of error.
func (e *unknownClassError) Error() string {
	if len(e.known) == 0 {
		return fmt.Sprintf("there is no storage class %q: this server has none (--planes-storage)", e.name)
	}
	return fmt.Sprintf("there is no storage class %q: this server has %v (--planes-storage)", e.name, e.known)
}

// classOf returns the storage class of a name.
func (f *Fleet) classOf(name string) (*class, error) {
	if c := f.classes[name]; c != nil {
		return c, nil
	}
	return nil, &unknownClassError{name, f.classNames()}
}

// answering returns the storage class of a name, if it has answered lately.
func (f *Fleet) answering(name string) (*class, error) {
	c, err := f.classOf(name)
	if err != nil {
		return nil, err
	}
	if err := c.isAway(); err != nil {
		return nil, fmt.Errorf("%w: %w", c.silent(), err)
	}
	return c, nil
}

// errSilent says that an etcd of planes does not answer.
var errSilent = errors.New("does not answer")

func (c *class) silent() error {
	return fmt.Errorf("the etcd of the storage class %q %w", c.name, errSilent)
}

func (c *class) isAway() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// look takes up whether the class answers now, and reports whether Planes are to say something else of it than before.
func (c *class) look(ctx context.Context, now time.Time) (changed bool) {
	c.looking.Lock()
	defer c.looking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := c.db.Ping(ctx)
	size, sized := kv.Size{}, errors.New("not asked")
	if err == nil {
		err = c.db.Writable(ctx)
		size, sized = c.db.Size(ctx)
	}
	if errors.Is(err, kv.ErrNoSpace) {
		err = nil // it answers, and what is deleted makes room
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if sized == nil {
		c.size = size
	}
	if (c.away == nil) != (err == nil) {
		c.since = now
	}
	c.away = err
	return c.word.update(err, c.since, now)
}

// followClass looks whether a class answers, until ctx ends, and has what Planes say of that written.
func (f *Fleet) followClass(ctx context.Context, c *class) {
	every := f.on.Clock.NewTicker(lookEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		if c.look(ctx, f.on.Clock.Now()) && ctx.Err() == nil {
			f.spread(c)
		}
		select {
		case <-every.C():
		case <-ctx.Done():
		}
	}
}

// spread has Planes say whether the class answers.
func (f *Fleet) spread(c *class) {
	c.mu.Lock()
	away, back := c.away, !c.word.back.IsZero()
	c.mu.Unlock()
	if away != nil {
		f.log.Warn("the etcd of a storage class does not answer; its planes wait, others go on", "class", c.name, "error", away)
	} else if back {
		f.log.Warn("the etcd of a storage class answers again", "class", c.name)
	}
	for _, h := range f.all() {
		if h.lying() == c.name && (!h.isMade() || f.misjudged(h)) {
			f.queue.AddAfter(h.name, 0)
		}
	}
}

// runClasses does for storage classes what a server does for its own log, until ctx ends.
func (f *Fleet) runClasses(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, name := range f.classNames() {
		c := f.classes[name]
		all.Go(func() { f.guard.Keep(ctx, "storage classes", func(ctx context.Context) { f.followClass(ctx, c) }) })
		if interval := f.on.Root.EtcdCompactionInterval; interval > 0 {
			all.Go(func() { store.RunCompaction(ctx, c.db, f.on.Clock, f.log.With("class", c.name), interval) })
		}
	}
}

// Admit are the plugins of admission of the root: a Plane can name only a storage class that there is.
func (f *Fleet) Admit() admission.Chain {
	return admission.Chain{{Name: "PlaneStorage", Of: []schema.GroupResource{planesResource}, Validator: admission.Func(f.admitClass)}}
}

func (f *Fleet) admitClass(_ context.Context, a *admission.Attributes) error {
	named := func(o runtime.Object) string {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return ""
		}
		name, _, _ := unstructured.NestedString(u.Object, "spec", "storageClass")
		return name
	}
	name := named(a.Object)
	if a.Object == nil || a.Subresource != "" || name == named(a.OldObject) {
		return nil
	}
	if _, err := f.classOf(name); err != nil {
		return apierrors.NewForbidden(planesResource, a.Name, err)
	}
	return nil
}
