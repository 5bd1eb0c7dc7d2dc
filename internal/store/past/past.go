package past

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/tree"
)

// Config says what is kept, and where.
type Config struct {
	Dir string
	// Log is what is followed, and Prefix that of its keys: "/registry/".
	Log    store.DB
	Prefix string
	// Near says that the log is in this process: to read from it costs no more than to read from Dir. One elsewhere sends along what was before
	// each change.
	Near bool
	// Recent is how many bytes of values are kept in memory, for those that come after them; 0: 8 MiB.
	Recent int
	// Age is for how long changes of a kind are kept, a kind being the beginning of its keys below Prefix, "pods/"; 0: they are not kept.
	Age func(kind string) time.Duration
	// Bytes bounds all of them together. Each kind has as much of it as it needs, or else an equal share.
	Bytes  int64
	Clock  clock.Clock
	Logger *slog.Logger
	// Restore returns what another past has of this log; nil: there is none. It is asked if this one cannot go on with what is in Dir. Optional.
	Restore func(ctx context.Context) (*Copy, error)
	// FS has the files; nil: the system's.
	FS vfs.FS
}

// Past is the changes that are kept.
type Past struct {
	Config
	tree   *pebble.DB
	lock   *pebble.Lock
	broken *tree.Breakage
	disk   *space.Reserve // nil: there is room

	found   int64 // the revision up to which changes were here when it was opened
	opening sync.Once
	opened  chan struct{} // closed once the tree is there, or is known not to be

	using  sync.RWMutex // read-locked while the tree is used
	closed bool         // guarded by using

	// ask has a token if the log is to be asked how far it is, hurry if what has come is not to wait for more.
	ask, hurry chan struct{}
	ended      chan struct{} // closed when nothing is recorded any more

	// saying guards authors: who writes does not wait for what is recorded.
	saying  sync.Mutex
	authors []authored

	mu sync.Mutex // before saying
	// All below is guarded by mu.
	reached  int64 // the revision up to which changes are here; 0: nothing was followed yet, and what is here may be of another log
	begun    int64 // the one after which they begin
	started  int64 // the one after which they were recorded since Run began
	moved    chan struct{}
	kinds    map[string]*kept
	newest   uint32 // the number of the newest segment of all kinds
	lastTime int64  // milliseconds of the last entry in timeSpace
	recent   *recent
}

// errClosed says that it was closed.
var errClosed = errors.New("the history is closed")

// New makes a past. What was kept before is opened by Run, so that a server need not wait for it to start; who asks for it earlier waits.
func New(c Config) *Past {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Recent == 0 {
		c.Recent = defaultRecent
	}
	var disk *space.Reserve
	if c.FS == nil {
		c.FS = tree.Private{FS: vfs.Default}
		disk = &space.Reserve{Dir: c.Dir, Need: needBytes}
	}
	return &Past{disk: disk, Config: c, broken: tree.NewBreakage(), opened: make(chan struct{}), ended: make(chan struct{}), ask: make(chan struct{}, 1),
		hurry: make(chan struct{}, 1), moved: make(chan struct{}), kinds: map[string]*kept{}, recent: newRecent(c.Recent)}
}

// needBytes is the free space below which nothing is recorded: the database of the server needs it more.
const needBytes = 128 << 20

// start opens the directory. If that fails, the past is broken.
func (p *Past) start() {
	defer close(p.opened)
	if err := p.openDir(); err != nil {
		p.broken.Set(fmt.Errorf("open the history in %s: %w", p.Dir, err))
	}
}

func (p *Past) openDir() (err error) {
	if err := p.FS.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	if p.lock, err = pebble.LockDirectory(p.Dir, p.FS); err != nil {
		return err
	}
	files, err := p.FS.List(p.Dir)
	if err != nil {
		return errors.Join(err, p.lock.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return errors.Join(err, p.lock.Close())
	}
	if len(files) > 1 && p.found == 0 { // more than the lock
		p.Logger.Warn("the history holds nothing, after a crash or by damage, and begins anew", "directory", p.Dir)
	}
	return nil
}

func (p *Past) open() (err error) {
	defer p.broken.Recover(&err)
	// What a crash takes is read from the log again, which has it for longer than flushEvery. Changes of a kind come everywhere between those that
	// are there: each compaction writes all of a segment again, so that there are to be few.
	o := &pebble.Options{DisableWAL: true, FS: p.FS, Lock: p.lock, CacheSize: 2 << 20, MemTableSize: 1 << 20, L0CompactionThreshold: 16, L0StopWritesThreshold: 48,
		FormatMajorVersion: pebble.FormatNewest, Logger: tree.Logger{Log: p.Logger, Broken: p.broken}, EventListener: p.broken.Listener()}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	if p.tree, err = pebble.Open(p.Dir, o); err != nil {
		return err
	}
	if err := errors.Join(p.broken.Err(), p.load()); err != nil {
		return errors.Join(err, p.tree.Close())
	}
	return nil
}

// load reads what is kept of which kinds.
func (p *Past) load() (err error) {
	if p.found, err = number(p.tree, reachedKey); err != nil {
		return err
	}
	if p.begun, err = number(p.tree, begunKey); err != nil {
		return err
	}
	if err := p.loadKinds(); err != nil {
		return err
	}
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{timeSpace}, UpperBound: []byte{timeSpace + 1}})
	if err != nil {
		return err
	}
	if it.Last() {
		p.lastTime = ofNumbered(it.Key())
	}
	return errors.Join(it.Error(), it.Close())
}

// number reads a number; 0: there is none.
func number(r pebble.Reader, key []byte) (int64, error) {
	value, done, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, _ := binary.Varint(value)
	return n, done.Close()
}

func bytesOf(n int64) []byte { return binary.AppendVarint(nil, n) }

// Close ends everything. Run must have returned.
func (p *Past) Close() error {
	p.using.Lock()
	defer p.using.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.tree == nil || p.broken.Err() != nil {
		return nil // what is left of a broken tree does not end
	}
	return errors.Join(p.tree.Flush(), p.tree.Close(), p.lock.Close())
}

// use begins to use the tree, or returns why nothing can be done any more. The caller calls done after that.
func (p *Past) use() (done func(), err error) {
	<-p.opened
	p.using.RLock()
	if err = p.broken.Err(); p.closed {
		err = errClosed
	}
	if err != nil {
		p.using.RUnlock()
		return nil, err
	}
	return p.using.RUnlock, nil
}

// Reach returns once everything up to a revision is here.
func (p *Past) Reach(ctx context.Context, rev int64) error {
	for {
		p.mu.Lock()
		reached, moved := p.reached, p.moved
		p.mu.Unlock()
		if reached >= rev {
			return nil
		}
		put(p.ask)
		put(p.hurry)
		select {
		case <-moved:
		case <-p.ended:
			return errClosed
		case <-p.broken.Happened:
			return p.broken.Err()
		case <-p.Clock.After(askAgain): // a request for progress may be lost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put puts a token into a channel, unless it has one.
func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const askAgain = 50 * time.Millisecond

// Size is how many bytes are kept, before the tree compresses them.
func (p *Past) Size() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kinds {
		n += k.bytes()
	}
	return n
}

// Keeps says whether changes of a kind are kept.
func (p *Past) Keeps(kind string) bool { return p.Age(kind) > 0 }

// Reached is the revision up to which changes are here.
func (p *Past) Reached() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}

// Started is the revision after which changes have been recorded since Run began, once it has.
func (p *Past) Started() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Since is the revision from which on a kind's past is known, with the changes after it.
func (p *Past) Since(kind string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sinceLocked(kind)
}

func (p *Past) sinceLocked(kind string) int64 {
	since := p.begun
	if k := p.kinds[kind]; k != nil {
		since = max(since, k.since)
	}
	return since
}

// await returns once everything that was written before the call is here, or why it is not known what a kind was at a revision.
func (p *Past) await(ctx context.Context, kind string, rev int64) error {
	head, err := p.Log.Head(ctx)
	switch {
	case err != nil:
		return err
	case rev > head:
		return kv.ErrFuture
	case kind == "" || !p.Keeps(kind) || rev < p.Since(kind):
		return kv.ErrCompacted
	}
	return p.Reach(ctx, head)
}
