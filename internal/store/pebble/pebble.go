package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/tree"
)

// Config says where a database is and what it may take.
type Config struct {
	Dir string
	// MaxValue bounds a value, in bytes; 0: DefaultMaxValue.
	MaxValue int
	// Quota bounds the database, in bytes; 0: the disk does.
	Quota int64
	// Cache is the memory for blocks of the tree, in bytes; 0: DefaultCache.
	Cache int64
	// UnsafeNoFsync does not wait for the disk: faster, but a power loss may lose writes. For tests.
	UnsafeNoFsync bool
	// AnyDisk takes writes until the disk is full.
	AnyDisk bool
	// KeepEnded leaves keys that have ended where they are, for who copies the database or looks through it.
	KeepEnded bool
	Clock     clock.Clock
	// Log receives what an operator can act on, and everything if it is for debugging. Optional.
	Log *slog.Logger
	// FS has the files; nil: the system's.
	FS vfs.FS
}

// Defaults of Config.
const (
	DefaultMaxValue = 8 << 20
	DefaultCache    = 32 << 20
)

// firstRevision is that of an empty database, as etcd's is.
const firstRevision = 1

// DB is an open database. It implements store.DB.
type DB struct {
	tree      *pebble.DB
	lock      *pebble.Lock
	files     vfs.FS
	dir       string
	clock     clock.Clock
	maxValue  int
	quota     quota
	unsynced  bool // nobody waits for the disk
	keepEnded bool
	disk      *space.Reserve // nil: writes are taken until the disk is full
	broken    *tree.Breakage
	durable   *durability
	tail      *tail
	expiry    *expiry
	closing   chan struct{}
	stop      func() // the expiry

	compacting sync.Mutex
	compacted  atomic.Int64 // history before it was dropped

	using  sync.RWMutex // read-locked while the tree is used
	closed bool         // guarded by using

	mu  sync.Mutex // decides transactions
	rev int64      // the newest, of which some may not be on disk yet; guarded by mu
	// heads is guarded by mu.
	heads *heads
}

// ErrInUse says that another process has opened the directory.
var ErrInUse = errors.New("the database is in use")

var errClosed = errors.New("the database is closed")

// Open opens the database in a directory, which it makes if need be.
func Open(c Config) (_ *DB, err error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	d := &DB{clock: c.Clock, maxValue: c.MaxValue, quota: quota{bytes: c.Quota}, unsynced: c.UnsafeNoFsync, keepEnded: c.KeepEnded, dir: c.Dir, heads: newHeads(), broken: tree.NewBreakage(), closing: make(chan struct{})}
	if d.maxValue == 0 {
		d.maxValue = DefaultMaxValue
	}
	if c.FS == nil {
		c.FS = tree.Private{FS: vfs.Default}
		if !c.AnyDisk {
			d.disk = &space.Reserve{Dir: c.Dir, Need: needBytes}
		}
	}
	d.files = c.FS
	if err := c.FS.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	if d.lock, err = pebble.LockDirectory(c.Dir, c.FS); err != nil {
		return nil, fmt.Errorf("open the database in %s: %w (%w)", c.Dir, ErrInUse, err)
	}
	if err = etcdfile.RemoveLeft(c.Dir); err == nil {
		err = d.open(c)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database in %s: %w", c.Dir, err), d.lock.Close())
	}
	d.start()
	return d, nil
}

// open opens the tree and reads how far it is.
func (d *DB) open(c Config) (err error) {
	defer d.broken.Recover(&err)
	if c.Cache == 0 {
		c.Cache = DefaultCache
	}
	o := &pebble.Options{
		Comparer: comparer, FS: c.FS, Lock: d.lock, CacheSize: c.Cache, MemTableSize: 16 << 20,
		FormatMajorVersion: pebble.FormatNewest, Logger: tree.Logger{Log: c.Log, Broken: d.broken}, EventListener: d.broken.Listener(),
		L0CompactionThreshold: 4,
	}
	for n := range o.Levels {
		o.Levels[n].FilterPolicy = bloom.FilterPolicy(10)
	}
	if d.tree, err = pebble.Open(c.Dir, o); err != nil {
		return err
	}
	if err := firstError(d.broken.Err(), d.load(c)); err != nil {
		return errors.Join(err, d.tree.Close())
	}
	return nil
}

// load reads how far the database is.
func (d *DB) load(c Config) error {
	compacted, err := readCompacted(d.tree)
	if err != nil {
		return err
	}
	d.compacted.Store(compacted)
	it, err := d.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{changesSpace}, UpperBound: spaceEnd(changesSpace)})
	if err != nil {
		return err
	}
	d.rev = max(firstRevision, compacted)
	if it.Last() {
		d.rev = max(d.rev, ofRevision(it.Key()))
	}
	if err := firstError(it.Error(), it.Close()); err != nil {
		return err
	}
	return breakSeal(c.FS, c.Dir, d.rev)
}

// start begins what runs beside requests.
func (d *DB) start() {
	d.tail = newTail(d.rev)
	d.durable = &durability{told: d.tail.show, fail: d.broken.Set, err: d.broken.Err, work: make(chan struct{}, 1),
		end: make(chan struct{}), left: make(chan struct{}), rev: d.rev}
	go d.durable.run()
	d.expiry = newExpiry(d)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	if !d.keepEnded {
		running.Go(func() { d.expiry.run(ctx) })
	}
	running.Go(func() {
		d.compacting.Lock()
		defer d.compacting.Unlock()
		_ = d.sweep(ctx) // what an earlier process left; if it fails, the next compaction does it
	})
	d.stop = func() { cancel(); running.Wait() }
}

// Close ends everything. Watches end with an error.
func (d *DB) Close() error {
	close(d.closing)
	d.stop()
	d.using.Lock()
	defer d.using.Unlock()
	d.durable.stop()
	if d.broken.Err() != nil {
		return nil // what is left of the tree does not end
	}
	d.closed = true
	if err := d.tree.Close(); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	return errors.Join(makeSeal(d.files, d.dir, d.rev), d.lock.Close())
}

// use begins to use the tree, or returns why nothing can be done any more. The caller calls done after that.
func (d *DB) use(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.using.RLock()
	err = d.broken.Err()
	if d.closed {
		err = errClosed
	}
	if err != nil {
		d.using.RUnlock()
		return nil, err
	}
	return d.using.RUnlock, nil
}

// usable returns an error if nothing can be done any more.
func (d *DB) usable(ctx context.Context) error {
	done, err := d.use(ctx)
	if err == nil {
		done()
	}
	return err
}

// Broken is closed when the database gives up. Err says why.
func (d *DB) Broken() <-chan struct{} { return d.broken.Happened }

// Err says why the database has given up; nil: it has not.
func (d *DB) Err() error { return d.broken.Err() }

// Head is part of store.DB.
func (d *DB) Head(ctx context.Context) (int64, error) { return d.durable.head(), d.usable(ctx) }

// Ping is part of store.DB.
func (d *DB) Ping(ctx context.Context) error { return d.usable(ctx) }

// Writable is part of store.DB.
func (d *DB) Writable(ctx context.Context) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	return d.room()
}

// MaxOps is part of store.DB.
func (d *DB) MaxOps() int { return math.MaxInt }

// needBytes is the free space that the tree may need before it can tell that there is too little: what is in its memory, and the
// next segments of its log.
const needBytes = 96 << 20

// room returns an error if the database must not grow.
func (d *DB) room() error {
	if err := d.disk.Room(); err != nil {
		return fmt.Errorf("%w: %w", err, kv.ErrNoSpace)
	}
	return d.quota.room(func() int64 {
		size, err := d.Size(context.Background())
		if err != nil {
			return 0 // it is closed or broken, which is told elsewhere
		}
		return size.Bytes
	})
}

// quota bounds the size of the database.
type quota struct {
	bytes int64 // 0: there is no bound

	mu   sync.Mutex
	read time.Time
	size int64 // then
}

// quotaAge is how long a measurement holds: to ask the tree takes locks that writes need.
const quotaAge = 200 * time.Millisecond

func (q *quota) room(measure func() int64) error {
	if q.bytes == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.read) >= quotaAge {
		q.read, q.size = now, measure()
	}
	if q.size > q.bytes {
		return fmt.Errorf("the database has %d bytes and may have %d: %w", q.size, q.bytes, kv.ErrNoSpace)
	}
	return nil
}

// Size is part of store.DB.
func (d *DB) Size(ctx context.Context) (kv.Size, error) {
	done, err := d.use(ctx)
	if err != nil {
		return kv.Size{}, err
	}
	defer done()
	return d.size(), nil
}

func (d *DB) size() kv.Size {
	m := d.tree.Metrics()
	bytes := int64(m.DiskSpaceUsage())
	used := int64(m.WAL.Size) + m.Total().TablesSize
	return kv.Size{Bytes: max(bytes, used), InUse: used, Quota: d.quota.bytes}
}

// firstError is the first of two errors that is one.
func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
