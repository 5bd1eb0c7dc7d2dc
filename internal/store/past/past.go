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
	// Age is for how long changes of a kind are kept, a kind being the beginning of its keys below Prefix, "pods/"; 0: they are not kept.
	Age func(kind string) time.Duration
	// Bytes bounds all of them together. Each kind has as much of it as it needs, or else an equal share.
	Bytes  int64
	Clock  clock.Clock
	Logger *slog.Logger
	// FS has the files; nil: the system's.
	FS vfs.FS
}

// Past is the changes that are kept.
type Past struct {
	Config
	tree   *pebble.DB
	lock   *pebble.Lock
	broken *tree.Breakage

	using  sync.RWMutex // read-locked while the tree is used
	closed bool         // guarded by using

	// ask has a token if the log is to be asked how far it is.
	ask chan struct{}

	mu sync.Mutex
	// All below is guarded by mu.
	reached  int64 // the revision up to which changes are here; 0: nothing was followed yet
	begun    int64 // the one after which they begin
	moved    chan struct{}
	kinds    map[string]*kept
	lastTime int64 // milliseconds of the last change
	authors  []authored
	recent   *recent
}

// errClosed says that it was closed.
var errClosed = errors.New("the history is closed")

// Open opens what is kept in a directory, which it makes if need be.
func Open(c Config) (_ *Past, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Past{Config: c, broken: tree.NewBreakage(), ask: make(chan struct{}, 1), moved: make(chan struct{}), kinds: map[string]*kept{}, recent: newRecent()}
	if p.FS == nil {
		p.FS = tree.Private{FS: vfs.Default}
	}
	if err := p.FS.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	if p.lock, err = pebble.LockDirectory(c.Dir, p.FS); err != nil {
		return nil, fmt.Errorf("open the history in %s: %w", c.Dir, err)
	}
	if err := p.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the history in %s: %w", c.Dir, err), p.lock.Close())
	}
	return p, nil
}

func (p *Past) open() (err error) {
	defer p.broken.Recover(&err)
	o := &pebble.Options{FS: p.FS, Lock: p.lock, CacheSize: 4 << 20, MemTableSize: 4 << 20, FormatMajorVersion: pebble.FormatNewest,
		Logger: tree.Logger{Log: p.Logger, Broken: p.broken}}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
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
	if p.reached, err = number(p.tree, reachedKey); err != nil {
		return err
	}
	if p.begun, err = number(p.tree, begunKey); err != nil {
		return err
	}
	if err := p.loadKinds(); err != nil {
		return err
	}
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{revisionSpace}, UpperBound: []byte{revisionSpace + 1}})
	if err != nil {
		return err
	}
	if it.Last() {
		p.lastTime, _ = binary.Varint(it.Value())
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
	if p.broken.Err() != nil {
		return nil // what is left of the tree does not end
	}
	return errors.Join(p.tree.Close(), p.lock.Close())
}

// use begins to use the tree, or returns why nothing can be done any more. The caller calls done after that.
func (p *Past) use() (done func(), err error) {
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
		select {
		case p.ask <- struct{}{}:
		default:
		}
		select {
		case <-moved:
		case <-p.broken.Happened:
			return p.broken.Err()
		case <-p.Clock.After(askAgain): // a request for progress may be lost
		case <-ctx.Done():
			return ctx.Err()
		}
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

// Reached is the revision up to which changes are here.
func (p *Past) Reached() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
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

// within returns kv.ErrCompacted if what a kind was at a revision is not known any more, or never was, and kv.ErrFuture if it is not known yet.
func (p *Past) within(kind string, rev int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case rev > p.reached:
		return kv.ErrFuture
	case kind == "" || rev < p.sinceLocked(kind):
		return kv.ErrCompacted
	}
	return nil
}
