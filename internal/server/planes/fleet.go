package planes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
)

// workers is how many planes are made or removed at a time.
const workers = 8

// Fleet is the control planes below a root.
type Fleet struct {
	cfg   *config.Plane // of the root
	on    *process.Process
	dial  *egress.Selector // of its planes
	log   *slog.Logger
	guard *guard.Guard
	seams server.Seams // of its planes
	queue *queue.Queue
	bases bases
	// firstObjects is what those depend on that every plane makes of itself, as a digest.
	firstObjects func() string
	metrics      *metrics

	// owners say which server has which plane; nil: this one has all; set by Run. places has the UIDs of planes that may have to go
	// to another server, or come from one.
	owners atomic.Pointer[owners.Owners]
	places *queue.Queue
	// classes are where planes can lie, by name, and moves the UIDs of planes that may have to lie elsewhere.
	classes map[string]*class
	moves   *queue.Queue
	events  chan *corev1.Event // that wait to be stored

	gathering gathering // of what all servers do
	began     time.Time

	transfers transfers
	sealed    *encryption.Encryption // how planes encrypt what they store; nil: they do not; set by Run

	root api    // the root's API, as the server itself; set by Run
	url  string // of the root
	ca   []byte // the authority of the root's serving certificate; nil: clients know it
	// audit is the root's auditor; set by Run; nil: it has none.
	audit atomic.Pointer[audit.Auditor]

	running context.Context // that of Run
	ending  sync.WaitGroup  // of planes that are gone

	mu      sync.RWMutex
	planes  map[string]*hosted    // by name; guarded by mu
	byUID   map[types.UID]*hosted // those of planes; guarded by mu
	listed  chan struct{}         // closed once all that exist are in planes
	serving context.Context       // ends when Stop begins
	halt    context.CancelFunc    // ends serving
	stopped bool                  // guarded by mu
	alive   atomic.Int64          // how many are awake, or about to be
}

// New makes the fleet of a root control plane of settings; seams are those of each plane. Nothing is served before Run.
func New(cfg *config.Plane, on *process.Process, seams server.Seams) *Fleet {
	g := guard.New(on.Log, on.Clock, func() {})
	dial := on.Egress
	if !on.Root.PlanesDialLocal {
		dial = egress.RemoteOnly(dial)
	}
	f := &Fleet{
		dial: dial, seams: seams, cfg: cfg, on: on, log: on.Log, guard: g, queue: queue.New("planes", on.Clock, g, nil, on.Log),
		places: queue.New("places of planes", on.Clock, g, nil, on.Log),
		planes: map[string]*hosted{}, byUID: map[types.UID]*hosted{}, listed: make(chan struct{}),
		moves:        queue.New("storage of planes", on.Clock, g, nil, on.Log),
		firstObjects: sync.OnceValue(func() string { return firstObjects(cfg) }),
	}
	f.newClasses()
	f.serving, f.halt = context.WithCancel(context.Background())
	f.began, f.events = on.Clock.Now(), make(chan *corev1.Event, maxEvents)
	f.metrics = newMetrics(f, on.Metrics)
	f.transfers = f.newTransfers()
	return f
}

// Run keeps the fleet until ctx ends; the root has started before. Call Stop then.
func (f *Fleet) Run(ctx context.Context, root *server.Plane) error {
	f.running = ctx
	f.root = through(root.Transport(controlplane.Itself()))
	f.url, f.ca = root.URL(), root.Authority()
	f.audit.Store(root.Auditor())
	if err := f.findBases(ctx); err != nil {
		return err
	}
	if err := f.define(ctx); err != nil {
		return err
	}
	if err := f.openEncryption(ctx); err != nil {
		return err
	}
	if err := f.own(ctx, root); err != nil {
		return err
	}
	defer f.keepEvents(ctx)()
	var all sync.WaitGroup
	defer all.Wait()
	if f.sealed != nil {
		all.Go(func() {
			f.sealed.Run(ctx, func(context.Context) {}) // planes look after what they store
			_ = f.sealed.Close()                        // it gives back connections only
		})
	}
	if o := f.owners.Load(); o != nil {
		all.Go(func() { o.Run(ctx) })
		all.Go(func() { f.places.Run(ctx, workers, f.place) })
	}
	all.Go(func() { f.runClasses(ctx) })
	all.Go(func() { f.queue.Run(ctx, workers, f.keep) })
	all.Go(func() { f.guard.Keep(ctx, "sleep of planes", f.tire) })
	all.Go(func() { f.guard.Keep(ctx, "use of planes", f.observe) })
	first := sync.OnceFunc(func() {
		close(f.listed)
		all.Go(func() { f.moves.Run(ctx, movesAtOnce, f.relocate) })
		all.Go(func() { f.guard.Keep(ctx, "what is left of planes", f.sweep) })
		all.Go(func() { f.guard.Keep(ctx, "what is left of planes in storage classes", f.sweepStorage) })
		for _, c := range f.classes {
			all.Go(func() { f.guard.Keep(ctx, "exports between planes", c.exports.Run) })
		}
	})
	f.root.follow(ctx, f.on.Clock.After, func(list []Plane) { f.replace(list); first() }, f.set, f.gone,
		func(err error) { f.log.Warn("could not follow planes, trying again", "error", err) })
	return nil
}

// Stop stops every control plane: requests under way are answered, watches end. Of several servers the others go on with them.
func (f *Fleet) Stop() error {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.halt()
	f.leave()
	f.queue.ShutDown()
	f.places.ShutDown()
	f.moves.ShutDown()
	f.ending.Wait()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, h := range f.all() {
		all.Go(func() {
			if err := h.stop(owners.Wanted()); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// all returns every plane.
func (f *Fleet) all() []*hosted {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := make([]*hosted, 0, len(f.planes))
	for _, h := range f.planes {
		out = append(out, h)
	}
	return out
}

// find returns the plane of a name; nil: there is none.
func (f *Fleet) find(name string) *hosted {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.planes[name]
}

// set takes up a Plane as it is now.
func (f *Fleet) set(p *Plane) {
	f.mu.Lock()
	h := f.planes[p.Name]
	if h == nil || h.uid != p.UID {
		h = &hosted{fleet: f, name: p.Name, uid: p.UID, made: make(chan struct{}), claiming: make(chan struct{}, 1), over: f.stopped}
		if before := f.planes[p.Name]; before != nil {
			delete(f.byUID, before.uid)
		}
		f.planes[p.Name], f.byUID[p.UID] = h, h
	}
	f.mu.Unlock()
	h.begin(p)
	if h.labelled(p) {
		f.tellExports(p.Name, h.lying())
	}
	h.limit(p.Spec.Limits)
	h.paced(&p.Status, f.on.Clock.Now())
	if h.prefers(p.Spec.Server) && f.owners.Load() != nil {
		f.places.AddAfter(string(p.UID), 0)
	}
	if made(p) {
		h.complete()
	}
	if h.restless() {
		f.moves.AddAfter(string(p.UID), 0)
	}
	h.remember(p.Status.Wakes)
	if p.DeletionTimestamp != nil {
		h.end()
	}
	if !f.settled(p, h) {
		f.queue.AddAfter(p.Name, 0)
	}
}

// gone forgets a Plane, of which nothing is stored any more.
func (f *Fleet) gone(p *Plane) { f.forget(p.Name, p.UID) }

func (f *Fleet) forget(name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.planes[name]
	if h == nil || h.uid != uid || f.stopped { // Stop stops it
		return
	}
	delete(f.planes, name)
	delete(f.byUID, uid)
	f.ending.Go(func() {
		h.end()
		f.tellExports(name, h.lying())
		f.logged(h, h.stop(owners.Asleep()))
		// Somebody may have taken its finalizer away.
		if err := f.eraseAll(context.WithoutCancel(f.running), h); err != nil {
			f.log.Warn("something of a plane is left in the log until the next start", "plane", h.name, "error", err)
		}
	})
}

// replace takes up all Planes.
func (f *Fleet) replace(list []Plane) {
	there := make(map[types.UID]bool, len(list))
	for n := range list {
		there[list[n].UID] = true
		f.set(&list[n])
	}
	for _, h := range f.all() {
		if !there[h.uid] {
			f.forget(h.name, h.uid)
		}
	}
}

// logged says that stopping a plane has failed.
func (f *Fleet) logged(h *hosted, err error) {
	if err != nil {
		f.log.Warn("a plane ended with an error", "plane", h.name, "error", err)
	}
}

// tire puts planes to sleep that nobody has used for a while, until ctx ends.
func (f *Fleet) tire(ctx context.Context) {
	idle := f.on.Root.PlanesIdle
	if idle <= 0 {
		return
	}
	every := f.on.Clock.NewTicker(max(idle/8, 100*time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-every.C():
		case <-ctx.Done():
			return
		}
		for _, h := range f.all() {
			now := f.on.Clock.Now()
			if h.tired(now.Add(-idle), now.Add(idle)) {
				f.logged(h, h.sleep())
			}
		}
	}
}

// room makes room for one more that is awake: as long as there are more than may be, the one that nobody has used for the longest time
// goes to sleep. It reports false if all are in use.
func (f *Fleet) room() bool {
	for most := int64(f.on.Root.PlanesAwake); most > 0 && f.alive.Load() > most; {
		var oldest *hosted
		var since time.Time
		for _, h := range f.all() {
			if at, ok := h.unused(); ok && (oldest == nil || at.Before(since)) {
				oldest, since = h, at
			}
		}
		if oldest == nil {
			return false
		}
		f.logged(oldest, oldest.sleep())
	}
	return true
}
