package past

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/logs"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	// retryAfter is the pause before a broken watch is begun again.
	retryAfter = time.Second
	// trimEvery is how often it is looked what is to be dropped, and flushEvery how often what is in memory comes to the disk.
	trimEvery, flushEvery = 10 * time.Second, time.Minute
	// markEvery is the least time between entries in timeSpace.
	markEvery = time.Second
)

// Run opens the past and records what happens in the log until ctx ends, or until the tree gives up: what is recorded is then told no more.
// It is called once.
func (p *Past) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	trimmed := make(chan struct{})
	go func() {
		defer close(trimmed)
		p.keepTrimmed(ctx)
	}()
	defer func() { cancel(); <-trimmed }()
	if err := p.begin(ctx); err != nil {
		return err
	}
	seldom := logs.NewSeldom(p.Logger, p.Clock, time.Minute)
	for {
		err := p.Log.Watch(ctx, kv.Watch{Key: p.Prefix, Prefix: true, From: p.Reached() + 1, Ask: p.ask}, func(events []kv.Event, rev int64) error {
			return p.record(ctx, events, rev)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case p.broken.Err() != nil:
			return p.broken.Err()
		case errors.Is(err, kv.ErrCompacted):
			p.Logger.Warn("the history has a gap, because the log was compacted before it was read, and begins anew", "revision", p.Reached())
			if err = p.beginAnew(ctx); err == nil {
				continue
			}
		}
		seldom.Warn("broke off", "recording the history broke off, beginning again", "error", err)
		select {
		case <-p.Clock.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Past) keepTrimmed(ctx context.Context) {
	flushed, written := p.Clock.Now(), p.Reached()
	for {
		select {
		case <-p.Clock.After(trimEvery):
			if now, reached := p.Clock.Now(), p.Reached(); now.Sub(flushed) >= flushEvery && reached != written {
				flushed, written = now, reached
				if err := p.Flush(); err != nil {
					p.Logger.Warn("the history could not be written to the disk", "error", err)
				}
			}
			if _, err := p.trim(); err != nil {
				p.Logger.Warn("old history could not be dropped", "error", err)
			}
			if err := p.flushAuthors(); err != nil {
				p.Logger.Warn("who has written could not be recorded", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Flush writes what is in memory to the disk.
func (p *Past) Flush() (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.Recover(&err)
	return p.tree.Flush()
}

// begin goes on where the history ended, unless the log is another one by now.
func (p *Past) begin(ctx context.Context) error {
	for {
		ok, err := p.continues(ctx)
		if err == nil && !ok {
			err = p.beginAnew(ctx)
		}
		if err == nil {
			return nil
		}
		p.Logger.Warn("the history could not be begun, trying again", "error", err)
		select {
		case <-p.Clock.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// continues says whether the log is the one that was followed, and can be followed further: it had what was changed last.
func (p *Past) continues(ctx context.Context) (bool, error) {
	reached := p.Reached()
	if reached == 0 {
		return false, nil
	}
	head, err := p.Log.Head(ctx)
	if err != nil || head < reached {
		return false, err
	}
	rev, keys, err := p.lastChange()
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if !key.known {
			continue
		}
		var had int64
		var value []byte
		_, err := p.Log.Range(ctx, kv.Range{Key: p.Prefix + key.name, Rev: reached}, func(k kv.KeyValue) bool {
			had, value = k.ModRevision, k.Value
			return true
		})
		if errors.Is(err, kv.ErrCompacted) {
			return false, nil
		}
		if err != nil || key.deleted != (had == 0) || !key.deleted && (had != rev || !bytes.Equal(value, key.value)) {
			return false, err
		}
	}
	return true, nil
}

// beginAnew drops everything, and begins at the log's head.
func (p *Past) beginAnew(ctx context.Context) error {
	head, err := p.Log.Head(ctx)
	if err != nil {
		return err
	}
	return p.empty(head)
}

func (p *Past) empty(head int64) (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.Recover(&err)
	b := p.tree.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	err = errors.Join(
		b.DeleteRange([]byte{0}, []byte{0xff}, nil),
		b.Set(reachedKey, bytesOf(head), nil), b.Set(begunKey, bytesOf(head), nil),
		b.Set(numbered(timeSpace, p.Clock.Now().UnixMilli()), bytesOf(head), nil),
		b.Commit(pebble.NoSync))
	if err != nil {
		return err
	}
	p.begun, p.kinds, p.recent, p.names = head, map[string]*kept{}, newRecent(), map[string]int64{}
	p.move(head)
	return nil
}

// record takes the next changes of the log, up to a revision.
func (p *Past) record(ctx context.Context, events []kv.Event, rev int64) (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.Recover(&err)
	if err := p.disk.Room(); err != nil {
		return err // the tree would wait for room, and all with it
	}
	b := p.tree.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, p.reload())
		}
	}()
	now := p.Clock.Now()
	p.lastTime = max(p.lastTime, now.UnixMilli())
	r := recording{Past: p, batch: b, now: now, touched: map[string]bool{}}
	for n := range events {
		if n > 0 && events[n].ModRevision != events[n-1].ModRevision {
			r.endRevision(events[n-1].ModRevision)
		}
		if err := r.event(ctx, &events[n]); err != nil {
			return err
		}
	}
	if len(events) > 0 {
		r.endRevision(events[len(events)-1].ModRevision)
	}
	return r.commit(max(rev, p.reached))
}

// reload forgets what a batch that was not written has left in memory.
func (p *Past) reload() error {
	p.recent, p.kinds = newRecent(), map[string]*kept{}
	return p.loadKinds()
}

// recording is a batch of changes.
type recording struct {
	*Past
	batch   *pebble.Batch
	now     time.Time
	touched map[string]bool // kinds
	changed []byte          // the keys of the revision that is being recorded, as endRevision writes them
	err     error
}

func (r *recording) set(key, value []byte) {
	if err := r.batch.Set(key, value, nil); err != nil && r.err == nil {
		r.err = err
	}
}

// event records a change.
func (r *recording) event(ctx context.Context, e *kv.Event) error {
	key := strings.TrimPrefix(string(e.Key), r.Prefix)
	kind := kindOf(key)
	if kind == "" {
		return nil
	}
	s, err := r.current(r.batch, kind, e.ModRevision, r.now)
	if err != nil || s == nil {
		return err
	}
	place := segmentKey(changeSpace, kind, s.number)
	name := key[len(kind):]
	prev := r.recent.get(key)
	if !e.Created() && (prev == nil || prev.segment != s.number) {
		if prev, err = r.before(ctx, s, place, name, key, e, prev); err != nil {
			return err
		}
	}
	value, next := r.change(s.number, e, prev)
	r.put(s, appendChange(place, name, e.ModRevision), value)
	if next != nil {
		r.recent.set(key, next)
	} else {
		r.recent.delete(key)
	}
	s.last, s.ended = e.ModRevision, r.now
	r.touched[kind] = true
	op := byte(0)
	if e.Deleted {
		op = 1
	}
	r.changed = append(r.changed, op)
	r.changed = binary.AppendUvarint(r.changed, uint64(len(key)))
	r.changed = append(r.changed, key...)
	return nil
}

// before writes down what a key was when the segment began, unless the segment knows the key. It returns that, if it is known.
func (r *recording) before(ctx context.Context, s *segment, place []byte, name, key string, e *kv.Event, prev *value) (*value, error) {
	if prev == nil {
		known, err := r.knows(place, name)
		if known || err != nil {
			return nil, err
		}
		var found *kv.KeyValue
		_, err = r.Log.Range(ctx, kv.Range{Key: string(e.Key), Rev: e.ModRevision - 1}, func(k kv.KeyValue) bool {
			found = &k
			return false
		})
		if err != nil {
			return nil, fmt.Errorf("read what %s was before revision %d: %w", key, e.ModRevision, err)
		}
		if found == nil {
			return nil, nil // it is created, whatever the event says
		}
		prev = &value{bytes: found.Value, rev: found.ModRevision}
	}
	r.put(s, appendChange(place, name, prev.rev), append([]byte{before | whole}, prev.bytes...))
	return &value{bytes: prev.bytes, rev: prev.rev, segment: s.number}, nil
}

// knows says whether a segment has something about a key.
func (r *recording) knows(place []byte, name string) (bool, error) {
	lower := append(append(place[:len(place):len(place)], name...), 0)
	it, err := r.tree.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: end(lower)})
	if err != nil {
		return false, err
	}
	known := it.First()
	return known, errors.Join(it.Error(), it.Close())
}

// longest is how many deltas follow one another.
const longest = 32

// change returns what is written down of a change, and what the key is now, nil if it is gone.
func (r *recording) change(segment uint32, e *kv.Event, prev *value) ([]byte, *value) {
	if e.Deleted {
		return []byte{deleted}, nil
	}
	flags := byte(0)
	if e.Created() {
		flags, prev = created, nil
	}
	next := &value{bytes: e.Value, rev: e.ModRevision, segment: segment}
	if prev != nil && prev.depth < longest {
		if d, ok := appendDelta([]byte{flags | delta}, prev.bytes, e.Value, len(e.Value)/2, &r.recent.places); ok {
			next.depth = prev.depth + 1
			return d, next
		}
	}
	return append([]byte{flags | whole}, e.Value...), next
}

func (r *recording) put(s *segment, key, value []byte) {
	s.bytes += int64(len(key) + len(value))
	r.set(key, value)
}

// endRevision writes down which keys a revision has changed, and when.
func (r *recording) endRevision(rev int64) {
	if len(r.changed) > 0 {
		r.set(numbered(revisionSpace, rev), append(bytesOf(r.lastTime), r.changed...))
		r.changed = r.changed[:0]
	}
}

// commit ends the batch: everything up to a revision is in it.
func (r *recording) commit(rev int64) error {
	if r.lastTime-r.marked >= markEvery.Milliseconds() {
		r.set(numbered(timeSpace, r.lastTime), bytesOf(rev))
		r.marked = r.lastTime
	}
	r.set(reachedKey, bytesOf(rev))
	for kind := range r.touched {
		k := r.kinds[kind]
		s := &k.segments[len(k.segments)-1]
		r.set(segmentKey(segmentSpace, kind, s.number), s.value())
	}
	r.addAuthors(r.set)
	if r.err != nil {
		return r.err
	}
	if err := r.batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	r.move(rev)
	return nil
}

// move says that everything up to a revision is here.
func (p *Past) move(rev int64) {
	p.reached = rev
	close(p.moved)
	p.moved = make(chan struct{})
}
