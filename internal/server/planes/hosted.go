package planes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/layer"
)

// errOver says that a plane takes no requests any more, errFull that as many are awake as may be, and all are in use.
var (
	errOver = errors.New("the plane is being deleted, or the server stops")
	errFull = errors.New("as many planes are in use as may be awake (--planes-awake)")
)

// hosted is one plane of the fleet.
type hosted struct {
	fleet *Fleet
	name  string
	uid   types.UID
	rate  atomic.Pointer[rate] // nil: its requests are not bounded

	answered  atomic.Int64 // requests
	watching  atomic.Int64 // long-running requests, now
	importing atomic.Bool
	wakes     atomic.Int64          // how often it has woken
	claiming  chan struct{}         // has a token while a request makes this server the owner: who does that again ends what was made
	refused   refusals              // requests and writes
	seats     atomic.Pointer[seats] // nil: it was not awake yet

	mu        sync.Mutex
	under     footing // guarded by mu, as are all below
	labels    map[string]string
	deleted   bool // it is being deleted
	limits    Limits
	bounds    *bounded      // its log while it is awake
	plane     *server.Plane // nil: it is asleep
	waking    *waking       // its start; nil: it does not start
	stopping  chan struct{} // closed when plane has stopped; nil: it does not stop
	requests  int           // under way
	used      time.Time     // when the last one ended
	over      bool          // none begins any more
	furnished bool          // it has its first objects: from a start, here or elsewhere, or by its base
	due       time.Time     // when its controllers have something to do next, as of its last sleep; zero: never
	alarm     clock.Timer   // wakes it then; nil: there is none
	made      chan struct{} // closed once all that belongs to it is there
	told      figures       // what its status says of its use
	untold    bool          // its status is to be written anew
	wanted    string        // the server that is to have it; "": any
	own       *claimed      // what it writes to while it is awake
	class     string        // the storage class that it lies in, as far as this server knows
	toldClass string        // what its status said of that
	trouble   string        // the reason for which it is not ready, as its status says; "": there is none
	// wantedClass is the one that it is to lie in, and unmoved why it has not moved there.
	wantedClass string
	unmoved     error
	fence       int64     // with which this server has become its owner
	had         bool      // this server is its owner, or was the last one
	pace        pace      // as its status says
	failing     bool      // the last try to wake it has failed
	failed      time.Time // when that was told last
}

// footing is what the log of a plane lies on.
type footing struct {
	created  time.Time
	base     string // the ID of its base; "": it has none
	imported bool   // its objects come from a file
}

// prefix is where its objects are in the log.
func (h *hosted) prefix() string { return Prefix + string(h.uid) }

// Prefix is where the objects of all planes are in the log.
const Prefix = "/kanzen/planes/"

// enter says that a request begins, and returns the plane for it, started. leave must be called if there is no error.
func (h *hosted) enter(ctx context.Context) (*server.Plane, error) {
	p, err := h.hold(ctx)
	if err != nil {
		h.wakesNot(ctx, err)
		return nil, err
	}
	if p.Running() {
		return p, nil
	}
	if err := h.wake(ctx, p); err != nil {
		h.leave()
		_ = h.sleep() // what did not start takes no place
		return nil, err
	}
	return p, nil
}

// waking is a start that is under way.
type waking struct {
	plane *server.Plane
	done  chan struct{} // closed when err is known
	err   error
}

// wake starts the plane, which is held. There is one start for all who ask. It keeps its place in the queue and goes on if ctx ends before: of
// many planes that are asked for at once, by clients that wait for a moment only, each has its turn.
func (h *hosted) wake(ctx context.Context, p *server.Plane) error {
	h.mu.Lock()
	w := h.waking
	if w == nil || w.plane != p {
		w = &waking{plane: p, done: make(chan struct{})}
		h.waking = w
		h.requests++ // the start holds it as well
		go h.awaken(context.WithoutCancel(ctx), w)
	}
	h.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaken does what wake has begun.
func (h *hosted) awaken(ctx context.Context, w *waking) {
	defer close(w.done)
	began := h.fleet.on.Clock.Now()
	w.err = h.fleet.guard.Call("starting a plane", func() error { return h.start(ctx, w.plane) })
	h.wakesNot(ctx, w.err)
	h.mu.Lock()
	if h.waking == w {
		h.waking = nil
	}
	h.mu.Unlock()
	h.leave()
	if w.err != nil {
		_ = h.sleep()
		return
	}
	h.fleet.metrics.woken(h.fleet.on.Clock.Since(began))
}

// isMade reports whether all that belongs to the plane is there.
func (h *hosted) isMade() bool {
	select {
	case <-h.made:
		return true
	default:
		return false
	}
}

// complete says that all that belongs to the plane is there.
func (h *hosted) complete() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.made:
	default:
		close(h.made)
		h.fleet.tellExports(h.name, h.class)
	}
}

// closed is why no request may begin. The caller holds mu.
func (h *hosted) closed() error {
	switch {
	case h.over:
		return errOver
	case h.under.imported && !h.isMade():
		return errAwaitsImport
	}
	return nil
}

// isFurnished reports whether it has its first objects.
func (h *hosted) isFurnished() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.furnished
}

// isImported reports whether its objects come from a file.
func (h *hosted) isImported() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.under.imported
}

// hold keeps the plane from going to sleep.
func (h *hosted) hold(ctx context.Context) (*server.Plane, error) {
	for {
		h.mu.Lock()
		if err := h.closed(); err != nil {
			h.mu.Unlock()
			return nil, err
		}
		stopping := h.stopping
		if stopping == nil && h.plane != nil {
			defer h.mu.Unlock()
			return h.held(ctx, nil)
		}
		h.mu.Unlock()
		if stopping != nil {
			select {
			case <-stopping:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		}
		if p, err := h.claim(ctx); p != nil || err != nil {
			return p, err
		}
	}
}

// claim makes this server the owner of a plane that is asleep, and makes the plane; nil: it is not asleep any more. Nobody waits for the log
// with mu.
func (h *hosted) claim(ctx context.Context) (*server.Plane, error) {
	select {
	case h.claiming <- struct{}{}:
		defer func() { <-h.claiming }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h.awake() {
		return nil, nil
	}
	own, err := h.fleet.claim(ctx, h)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.closed(); err != nil {
		return nil, err
	}
	return h.held(ctx, own)
}

// held takes up that a request uses the plane, which it makes if there is none; own is what it writes to then. The caller holds mu.
func (h *hosted) held(ctx context.Context, own *claimed) (*server.Plane, error) {
	if h.plane == nil {
		var err error
		if h.plane, err = h.make(ctx, own); err != nil {
			return nil, err
		}
		h.fleet.alive.Add(1)
	}
	if h.alarm != nil {
		h.alarm.Stop()
		h.alarm = nil
	}
	h.requests++
	return h.plane, nil
}

// start starts the plane, one of few at a time.
func (h *hosted) start(ctx context.Context, p *server.Plane) error {
	h.mu.Lock()
	own := h.own
	h.mu.Unlock()
	if own == nil { // it was stopped meanwhile
		return errOvertaken
	}
	own.class.wakes <- struct{}{} // who is before it starts within bootTimeout, or gives up
	defer func() { <-own.class.wakes }()
	if !h.has(p) {
		return errOvertaken
	}
	if !h.fleet.room() {
		return errFull
	}
	within, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := p.Start(within); err != nil {
		if !h.has(p) { // it was stopped meanwhile, which is no failure to start
			return errOvertaken
		}
		return err
	}
	h.mu.Lock()
	h.furnished = true
	h.mu.Unlock()
	h.wakes.Add(1)
	h.fleet.queue.AddAfter(h.name, 0) // its status
	h.fleet.tellExports(h.name, h.lying())
	return nil
}

// begin takes up what it began with.
func (h *hosted) begin(p *Plane) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under.created, h.under.imported = p.CreationTimestamp.Time, p.Spec.Imported
	if p.Status.Base != "" { // what is told late may be from before
		h.under.base = p.Status.Base
	}
	// Where there is one server, its start brings back what was deleted of them, as that of kube-apiserver does. A plane that goes from
	// server to server is not started in that sense, and looking for them would be a fifth of what that costs.
	h.furnished = h.furnished || h.fleet.owners.Load() != nil && p.Status.FirstObjects == h.fleet.firstObjects()
	if h.wantedClass != p.Spec.StorageClass && h.isMade() {
		h.fleet.tellExports(h.name, h.class) // bindings may wait for the plane to move, or not to
	}
	h.wantedClass, h.trouble = p.Spec.StorageClass, troubled(p)
	if told := p.Status.storageClass(); told != h.toldClass { // otherwise this server may know better
		h.toldClass = told
		h.liesNow(told)
	}
	if h.told.objects == 0 || !h.had { // as another server, or a process before this one has counted
		h.told.objects, h.told.bytes = p.Status.Objects, p.Status.Bytes
	}
}

// make makes the plane, stopped, on its part of the log.
func (h *hosted) make(ctx context.Context, own *claimed) (*server.Plane, error) {
	f := h.fleet
	h.fence, h.had, h.own = own.fence, true, own
	usage := func(ctx context.Context, prefix string) (objects, bytes int64, err error) {
		return usage(ctx, own.db, prefix)
	}
	h.bounds = &bounded{DB: own.db, prefix: h.prefix() + "/", usage: usage, clock: f.on.Clock, refused: &h.refused.storage, most: h.limits}
	h.seats.CompareAndSwap(nil, newSeats())
	db, err := f.laid(ctx, h.uid, h.under, &own.storage, h.bounds)
	if err != nil {
		return nil, err
	}
	on := f.on.Hosted(db, f.dial)
	on.Log = f.log.With("plane", h.name)
	seams := f.seams
	if err := f.takePart(&seams, h); err != nil {
		return nil, err
	}
	if h.under.base != "" {
		b, err := f.baseOf(ctx, h.under.base)
		if err != nil {
			return nil, err
		}
		seams.Common = b.common()
	}
	seams.Made = h.furnished
	seams.Auditor = func() *audit.Auditor { return f.audit.Load().Foreign(auditPlane, h.name) }
	cfg := f.cfg.Hosted(h.prefix())
	seams.Keys = func(ctx context.Context) (*keys.Keys, error) {
		set, err := f.keysOf(ctx, h)
		if err != nil {
			return nil, err
		}
		return keys.Of(set, cfg, on.Address(), f.ca, f.on.Clock.Now(), on.Log)
	}
	return server.New(cfg, on, seams), nil
}

// laid puts a log, which is the one that a plane lies in, on what the plane has begun with and where it has lain before.
func (f *Fleet) laid(ctx context.Context, uid types.UID, under footing, s *storage, db store.DB) (store.DB, error) {
	switch {
	case s.at == 0 && under.imported:
		return f.shifted(ctx, uid, db)
	case s.at != 0:
		db = f.spliced(s, db)
	}
	if under.base == "" {
		return db, nil
	}
	b, err := f.baseOf(ctx, under.base)
	if err != nil {
		return nil, err
	}
	own, err := b.personalize(uid, under.created)
	if err != nil {
		return nil, err
	}
	return layer.New(db, Prefix+string(uid)+"/", own), nil
}

// leave says that a request has ended.
func (h *hosted) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests--
	h.used = h.fleet.on.Clock.Now()
}

// awake reports whether it is.
func (h *hosted) awake() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plane != nil
}

// has reports whether the plane is still this one, and does not stop.
func (h *hosted) has(p *server.Plane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plane == p && h.stopping == nil
}

// tired reports whether nobody has used it since a time, and its controllers have nothing to do before another.
func (h *hosted) tired(since, until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.plane == nil || h.stopping != nil || h.requests > 0 || !h.used.Before(since) {
		return false
	}
	due := h.plane.Due()
	h.due = due
	return due.IsZero() || due.After(until)
}

// unused returns since when nobody uses the plane, if it is awake.
func (h *hosted) unused() (since time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used, h.plane != nil && h.stopping == nil && h.requests == 0
}

// sleep stops the plane if no request is under way.
func (h *hosted) sleep() error { return h.halt(false, owners.Asleep()) }

// end refuses requests from now on.
func (h *hosted) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// stop ends the plane, and requests under way.
func (h *hosted) stop(then owners.Then) error {
	h.end()
	return h.halt(true, then)
}

// halt stops the plane, if no request is under way or whatever is. If several servers have planes, then is what becomes of it.
func (h *hosted) halt(whatever bool, then owners.Then) error {
	h.mu.Lock()
	p, stopping := h.plane, h.stopping
	if stopping != nil {
		h.mu.Unlock()
		<-stopping
		return nil
	}
	if p == nil || h.requests > 0 && !whatever {
		h.mu.Unlock()
		return nil
	}
	return h.halting(then, nil)
}

// between stops a plane that this server has by a fence, and calls do before it can be started again; new requests wait for that.
func (h *hosted) between(fence int64, then owners.Then, do func() error) error {
	h.mu.Lock()
	if h.plane == nil || h.stopping != nil || h.over || h.fence != fence {
		h.mu.Unlock()
		return errOvertaken
	}
	var failed error
	err := h.halting(then, func() { failed = do() })
	h.fleet.logged(h, err)
	return failed
}

// halting stops the plane. The caller holds mu, which is not held any more then.
func (h *hosted) halting(then owners.Then, do func()) error {
	p := h.plane
	h.stopping = make(chan struct{})
	if due := p.Due(); !due.IsZero() { // it may have to make room before it is tired
		h.due = due
	}
	fence := h.fence
	h.mu.Unlock()
	err := p.Stop()
	if do != nil {
		do()
	}
	h.fleet.release(h, fence, then)
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.stopping)
	h.plane, h.stopping, h.own = nil, nil, nil
	h.had = h.had && then == owners.Asleep()
	h.fleet.alive.Add(-1)
	if !h.over {
		h.fleet.queue.AddAfter(h.name, 0) // its status
		h.rouseLater()
	}
	return err
}

// wakesAt returns when the alarm is; nil: there is none.
func (h *hosted) wakesAt() *metav1.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alarm == nil {
		return nil
	}
	at := metav1.NewTime(h.due)
	return &at
}

// remember sets the alarm that a process before this one has set.
func (h *hosted) remember(at *metav1.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at != nil && h.plane == nil && h.alarm == nil && !h.over {
		h.due = at.Time
		h.rouseLater()
	}
}

// overdue is when a plane wakes for what should have been done already: not at once, as it may have gone to sleep to make room.
const overdue = 10 * time.Second

// rouseLater sets the alarm for what its controllers have to do.
func (h *hosted) rouseLater() {
	if h.due.IsZero() {
		return
	}
	clk := h.fleet.on.Clock
	wait := h.due.Sub(clk.Now())
	if wait <= 0 {
		wait = overdue
	}
	h.alarm = clk.AfterFunc(wait, func() {
		if _, err := h.enter(context.Background()); err == nil {
			h.leave() // the controllers have until it is tired again
		}
	})
}
