package kanzentest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Fault has requests go wrong.
type Fault struct {
	// On selects the requests; the zero Match: all requests of clients.
	On Match
	// After is how many of them pass first.
	After int
	// Times is how many go wrong then; 0: one; negative: all, until the fault is removed.
	Times int
	// Delay passes, by the system's clock, before the request is answered.
	Delay time.Duration
	// Meanwhile is called before the request is served: it does what another client does between the look of a controller
	// and its act.
	Meanwhile func()
	// Err is the answer, such as apierrors.NewConflict; nil: the request is served, after its Delay.
	Err error
}

// Conflict refuses the n-th update or patch (from 1) of a resource, named as in Match, as if another writer had been
// faster.
func Conflict(resource string, n int) Fault {
	return Fault{On: Match{Verbs: "update,patch", Resource: resource}, After: n - 1,
		Err: apierrors.NewConflict(schema.GroupResource{Resource: resource}, "", errors.New("the object has been modified; please apply your changes to the latest version and try again"))}
}

// TooManyRequests refuses a number of requests with 429 and asks clients to come again after some seconds.
func TooManyRequests(on Match, times, retryAfterSeconds int) Fault {
	return Fault{On: on, Times: times, Err: apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", retryAfterSeconds)}
}

// Expired refuses the next watch of a resource with 410, so that its client lists again.
func Expired(resource string) Fault {
	return Fault{On: Match{Verbs: "watch", Resource: resource}, Err: apierrors.NewResourceExpired("too old resource version")}
}

// Slow delays every list of a resource until the fault is removed.
func Slow(resource string, delay time.Duration) Fault {
	return Fault{On: Match{Verbs: "list", Resource: resource}, Times: -1, Delay: delay}
}

// Injected is a fault that was injected.
type Injected struct {
	fault   Fault
	faults  *faults
	passed  int // guarded by faults.mu
	applied int // guarded by faults.mu
}

// Applied returns how many requests the fault has met.
func (i *Injected) Applied() int {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	return i.applied
}

// Remove takes the fault back.
func (i *Injected) Remove() {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	i.faults.remove(i)
}

// Inject has requests go wrong from now on. Of several faults for a request the one injected first applies.
func (s *Server) Inject(f Fault) *Injected {
	if f.Times == 0 {
		f.Times = 1
	}
	i := &Injected{fault: f, faults: s.faults}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.all = append(s.faults.all, i)
	s.faults.count.Store(int64(len(s.faults.all)))
	return i
}

// faults are the injected faults that may still apply.
type faults struct {
	count atomic.Int64 // of all: requests look at it without the lock
	mu    sync.Mutex
	all   []*Injected
}

func newFaults() *faults { return &faults{} }

func (f *faults) any() bool { return f.count.Load() > 0 }

// remove drops a fault; mu is held.
func (f *faults) remove(i *Injected) {
	f.all = slices.DeleteFunc(f.all, func(o *Injected) bool { return o == i })
	f.count.Store(int64(len(f.all)))
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
	f.count.Store(0)
}

// of returns the fault for a request, nil if it is to pass.
func (f *faults) of(q *Request) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due *Injected
	for _, i := range f.all {
		switch {
		case !i.fault.On.matches(q):
		case i.passed < i.fault.After:
			i.passed++
		case due == nil:
			due = i
		}
	}
	if due == nil {
		return nil
	}
	if due.applied++; due.applied == due.fault.Times {
		f.remove(due)
	}
	return &due.fault
}

// faulted injects a fault into a request, and says whether that was its answer.
func (s *Server) faulted(w http.ResponseWriter, r *http.Request, q *Request, recorded bool) bool {
	known := *q // nobody else changes what faults are matched by
	f := s.faults.of(&known)
	if f == nil {
		return false
	}
	if recorded {
		s.record.change(func() { q.Fault = true })
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	if f.Meanwhile != nil {
		f.Meanwhile()
	}
	if f.Err == nil {
		return false
	}
	engine.RefuseRequest(w, r, f.Err)
	return true
}

// EndWatches ends the watches that are under way, as a server that shuts down or a broken connection does; with matches
// those that one of them matches. Their clients can start them again at once.
func (s *Server) EndWatches(of ...Match) { s.watches.end(of) }

// watches are those under way.
type watches struct {
	mu  sync.Mutex
	all map[*context.CancelFunc]Request
}

func newWatches() *watches { return &watches{all: map[*context.CancelFunc]Request{}} }

func (w *watches) enter(ctx context.Context, q Request) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[&cancel] = q
	return ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, &cancel)
		cancel()
	}
}

func (w *watches) end(of []Match) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel, q := range w.all {
		if len(of) == 0 || slices.ContainsFunc(of, func(m Match) bool { return m.matches(&q) }) {
			(*cancel)()
		}
	}
}

// errAway is what a server says when etcd does not answer.
var errAway = errors.New("etcdserver: request timed out")

// StopEtcd has every operation on the server's log fail, as if etcd were away, until the returned func is called.
func (s *Server) StopEtcd() (restore func()) { return s.etcd.begin() }

// outage is a log that can be away.
type outage struct {
	store.DB
	mu   sync.Mutex
	away int           // calls of begin that are not over; guarded by mu
	cut  chan struct{} // closed while it is away; guarded by mu
}

func newOutage() *outage { return &outage{cut: make(chan struct{})} }

// around returns the log, with outages.
func (o *outage) around(db store.DB) store.DB {
	o.DB = db
	return o
}

func (o *outage) begin() (restore func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away++; o.away == 1 {
		close(o.cut)
	}
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.away--; o.away == 0 {
			o.cut = make(chan struct{})
		}
	})
}

// state returns a channel that is closed when the log goes away, and an error if it is.
func (o *outage) state() (<-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away > 0 {
		return nil, errAway
	}
	return o.cut, nil
}

// Head is part of store.DB, as are the methods below.
func (o *outage) Head(ctx context.Context) (int64, error) {
	if _, err := o.state(); err != nil {
		return 0, err
	}
	return o.DB.Head(ctx)
}

// Range is part of store.DB.
func (o *outage) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if _, err := o.state(); err != nil {
		return kv.Answer{}, err
	}
	return o.DB.Range(ctx, r, yield)
}

// Commit is part of store.DB.
func (o *outage) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if _, err := o.state(); err != nil {
		return kv.Committed{}, err
	}
	return o.DB.Commit(ctx, t)
}

// Watch is part of store.DB.
func (o *outage) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	cut, err := o.state()
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ended:
		}
	}()
	err = o.DB.Watch(inner, w, deliver)
	if inner.Err() != nil && ctx.Err() == nil {
		return errAway
	}
	return err
}

// Compact is part of store.DB.
func (o *outage) Compact(ctx context.Context, rev int64) error {
	if _, err := o.state(); err != nil {
		return err
	}
	return o.DB.Compact(ctx, rev)
}

// Ping is part of store.DB.
func (o *outage) Ping(ctx context.Context) error {
	if _, err := o.state(); err != nil {
		return err
	}
	return o.DB.Ping(ctx)
}

// Size is part of store.DB.
func (o *outage) Size(ctx context.Context) (kv.Size, error) {
	if _, err := o.state(); err != nil {
		return kv.Size{}, err
	}
	return o.DB.Size(ctx)
}
