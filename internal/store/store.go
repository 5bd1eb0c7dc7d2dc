package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Errors that readers and writers distinguish.
var (
	// ErrNotFound: there is no object at the key.
	ErrNotFound = errors.New("not found")
	// ErrExists: there is an object at the key already.
	ErrExists = errors.New("already exists")
	// ErrCompacted: etcd no longer has the requested revision.
	ErrCompacted = kv.ErrCompacted
	// ErrFuture: the requested revision was not reached, or not within the time
	// to wait.
	ErrFuture = kv.ErrFuture
	// ErrTooLarge: the value is larger than etcd accepts.
	ErrTooLarge = kv.ErrTooLarge
	// ErrNoSpace: etcd's disk or quota is full.
	ErrNoSpace = kv.ErrNoSpace
	// ErrForgotten: the view was dropped (Store.Forget).
	ErrForgotten = errors.New("the view was dropped")
)

// Transformer changes values on their way to etcd and back (encryption).
type Transformer interface {
	// ToStorage returns the bytes to store for value under key.
	ToStorage(ctx context.Context, key string, value []byte) ([]byte, error)
	// FromStorage reverses ToStorage; stale says that ToStorage would now give
	// other bytes.
	FromStorage(ctx context.Context, key string, stored []byte) (value []byte, stale bool, err error)
}

// Caller is what the store knows of the requests that it works for.
type Caller interface {
	// Waited is told for how long the request of ctx has waited for etcd, and since when.
	Waited(ctx context.Context, since time.Time, took time.Duration)
	// AuditID names the request of ctx in traces; it is empty outside of one.
	AuditID(ctx context.Context) string
}

// nobody is the Caller of a store that is told of none.
type nobody struct{}

func (nobody) Waited(context.Context, time.Time, time.Duration) {}
func (nobody) AuditID(context.Context) string                   { return "" }

// Options of a Store; the zero value of each field but Prefix is usable.
type Options struct {
	// Prefix of all keys, with slashes around it: "/registry/".
	Prefix string
	// Shown is what keys begin with for clients, who are not told where a control plane below another one lies; empty: Prefix.
	Shown string
	// EncodingBytes bounds the cached encodings of all views.
	EncodingBytes int
	// Transformer returns the transformer of the values at a key below Prefix
	// that belongs to no view. Optional: they are stored as they are.
	Transformer func(key string) Transformer
	Clock       clock.Clock
	Log         *slog.Logger
	// Metrics measure requests to etcd. Optional.
	Metrics *Metrics
	// Guard handles panics of functions that follow views.
	Guard *guard.Guard
	// Caller is told of the time that requests spend here. Optional.
	Caller Caller
	// Compare has views compared with the log from time to time.
	Compare bool
	// Past has what the main log has forgotten. Optional.
	Past Past
}

// Store is the API objects in one log.
type Store struct {
	db     DB
	prefix string
	shown  string // instead of prefix, for clients
	clock  clock.Clock
	log    *slog.Logger
	guard  *guard.Guard
	caller Caller
	// compares is Options.Compare.
	compares bool
	// beyond is Options.Past; nil: there is none.
	beyond Past
	// metrics is Options.Metrics; never nil.
	metrics *Metrics
	// transformer is Options.Transformer.
	transformer func(key string) Transformer
	// owns says that a key below the prefix belongs here; nil: all do. It does not change after NewCluster.
	owns func(key string) bool
	// Encodings bounds what all items together may cache.
	Encodings *Budget

	// fork is db if that begins with what others hold; nil: it does not.
	fork   Forked
	follow follower
	// beginning is where follow begins.
	beginning beginning
	// compacted is the newest revision at which a server is known to have compacted; see endPast.
	compacted   atomic.Int64
	tasks       tasks
	untold      untold
	histories   *semaphore.Weighted // bytes of etcd's history that may be read at a time
	windowBytes int                 // of each view's window
	values      *values             // of the items, those of other stores among them

	mu    sync.RWMutex
	views map[string]*View // by prefix below Store.prefix, with a slash at the end
	taps  []*Tap           // replaced, never changed
}

// shared is what the stores of a cluster have in common.
type shared struct {
	encodings *Budget
	values    *values
}

// newShared makes what stores share, and completes their options.
func newShared(o *Options) shared {
	if o.EncodingBytes == 0 {
		o.EncodingBytes = 64 << 20
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Guard == nil {
		o.Guard = guard.New(o.Log, o.Clock, nil)
	}
	if o.Caller == nil {
		o.Caller = nobody{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	return shared{NewBudget(o.EncodingBytes), &values{limit: defaultPlain}}
}

// New makes a Store on an open log. Nothing is read or watched before Run.
func New(db DB, o Options) *Store {
	common := newShared(&o)
	return newStore(db, o, common)
}

func newStore(db DB, o Options, common shared) *Store {
	s := &Store{
		db: db, metrics: o.Metrics, prefix: o.Prefix, shown: cmp.Or(o.Shown, o.Prefix), clock: o.Clock, log: o.Log, guard: o.Guard, caller: o.Caller, compares: o.Compare, transformer: o.Transformer,
		Encodings: common.encodings, values: common.values, views: map[string]*View{},
		histories: semaphore.NewWeighted(historiesBytes), windowBytes: windowBytes,
	}
	if s.fork, _ = db.(Forked); s.fork != nil {
		s.Encodings.lent = s.fork.Cut().Rev
	}
	s.values.stores = append(s.values.stores, s)
	s.follow.init()
	s.beginning.init()
	s.tasks.init()
	return s
}

// Run follows the log until ctx ends; it is called once. Reads and writes need it to be running. When it returns, no
// goroutine of the store is running.
func (s *Store) Run(ctx context.Context) error {
	defer s.tasks.stop()
	s.tasks.start(s.cutWindows)
	s.tasks.start(s.runHeal)
	s.tasks.start(s.runCompacted)
	if s.compares {
		s.tasks.start(s.runCompare)
	}
	if s.values.stores[0] == s && s.fork == nil { // what a fork begins with is compressed where it comes from
		s.tasks.start(s.runPack)
	}
	return s.run(ctx)
}

// Ping returns an error if etcd does not accept requests.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Writable returns an error if etcd takes no writes.
func (s *Store) Writable(ctx context.Context) error { return s.db.Writable(ctx) }

// Size returns the bytes of etcd's database.
func (s *Store) Size(ctx context.Context) (kv.Size, error) { return s.db.Size(ctx) }

// Revision is the newest revision up to which this server has seen everything.
func (s *Store) Revision() int64 { return s.follow.rev.Load() }

// Fresh returns once this server has seen every write that was acknowledged, by any server, before the call.
func (s *Store) Fresh(ctx context.Context) error {
	defer s.waited(ctx, s.clock.Now())
	ctx, sp := span.Start(ctx, "Fresh etcd3")
	defer sp.End()
	rev, err := s.db.Head(ctx)
	if err != nil {
		return err
	}
	return s.WaitFor(ctx, rev)
}

// waited tells the caller that the request of ctx has waited since a time.
func (s *Store) waited(ctx context.Context, since time.Time) {
	s.caller.Waited(ctx, since, s.clock.Since(since))
}

// WaitFor returns once this server has seen revision rev.
func (s *Store) WaitFor(ctx context.Context, rev int64) error {
	return s.follow.wait(ctx, s.tasks.ctx, rev)
}

// view returns the view that a key of etcd belongs to, or nil. A view's prefix
// is one or two segments long, below the store's.
func (s *Store) view(key []byte) *View {
	key = key[len(s.prefix):]
	s.mu.RLock()
	defer s.mu.RUnlock()
	slash := -1
	for range 2 {
		n := bytes.IndexByte(key[slash+1:], '/')
		if n < 0 {
			return nil
		}
		slash += n + 1
		if v := s.views[string(key[:slash+1])]; v != nil {
			return v
		}
	}
	return nil
}
