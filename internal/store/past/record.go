package past

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	// retryAfter is the pause before a broken watch is begun again.
	retryAfter = time.Second
	// attempts is how often a copy of another past is tried.
	attempts = 3
)

// Run opens the past and records what happens in the log, until ctx ends, or the tree gives up: what is recorded is then told no more.
func (p *Past) Run(ctx context.Context) error {
	p.opening.Do(p.start)
	defer p.end(ctx)
	if err := p.broken.Err(); err != nil {
		return err
	}
	p.begin(ctx)
	seldom := logs.NewSeldom(p.Logger, p.Clock, time.Minute)
	for {
		err := p.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case p.broken.Err() != nil:
			return p.broken.Err()
		case errors.Is(err, kv.ErrCompacted):
			p.Logger.Warn("the history has a gap, because the log was compacted before it was read", "revision", p.Reached())
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

// end says that nothing is recorded any more, if that is for good.
func (p *Past) end(ctx context.Context) {
	if ctx.Err() != nil || p.broken.Err() != nil {
		close(p.ended)
	}
}

// begin goes on where the history ended, unless the log is another one by now.
func (p *Past) begin(ctx context.Context) {
	for {
		ok, err := p.continues(ctx)
		switch {
		case err == nil && ok:
			p.goOn()
		case err == nil:
			err = p.beginAnew(ctx)
		}
		if err == nil {
			return
		}
		p.Logger.Warn("the history could not be begun, trying again", "error", err)
		select {
		case <-p.Clock.After(retryAfter):
		case <-ctx.Done():
			return
		}
	}
}

// continues says whether the log is the one that was followed, and can be followed further: it had what was changed last.
func (p *Past) continues(ctx context.Context) (bool, error) {
	if p.found == 0 {
		return false, nil
	}
	head, err := p.Log.Head(ctx)
	if err != nil || head < p.found {
		return false, err
	}
	last, err := p.lastChange()
	if err != nil || last == nil {
		return err == nil, err // nothing has changed since it began
	}
	var is lastChange
	_, err = p.Log.Range(ctx, kv.Range{Key: p.Prefix + last.key, Rev: p.found}, func(k kv.KeyValue) bool {
		is = lastChangeOf(last.key, k.ModRevision, k.Value)
		return true
	})
	if errors.Is(err, kv.ErrCompacted) {
		return false, nil
	}
	if last.deleted {
		return err == nil && is.rev == 0, err
	}
	return err == nil && is == *last, err
}

// goOn takes what was found for what is here.
func (p *Past) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = p.found
	p.move(p.found)
}

// beginAnew drops everything, and begins with what another past has, or else at the log's head.
func (p *Past) beginAnew(ctx context.Context) error {
	for range attempts { // the log may be compacted while a copy is read; by then there is a newer one
		taken, err := p.restore(ctx)
		if err != nil {
			p.Logger.Warn("the history that other servers have could not be taken", "error", err)
		}
		if !taken {
			break
		}
		ok, err := p.continues(ctx)
		if err != nil {
			return err
		}
		if ok {
			p.Logger.Info("the history begins with what other servers have of it", "revision", p.begunAt(), "upTo", p.found)
			p.goOn()
			return nil
		}
	}
	head, err := p.Log.Head(ctx)
	if err != nil {
		return err
	}
	return p.empty(head, p.Clock.Now())
}

func (p *Past) begunAt() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// empty drops everything, and begins at a revision that was reached at a time.
func (p *Past) empty(head int64, at time.Time) (err error) {
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
	now := at.UnixMilli()
	err = errors.Join(
		b.DeleteRange([]byte{0}, []byte{0xff}, nil),
		b.Set(reachedKey, bytesOf(head), nil), b.Set(begunKey, bytesOf(head), nil),
		b.Set(numbered(timeSpace, now), bytesOf(head), nil),
		b.Commit(pebble.NoSync))
	if err != nil {
		return err
	}
	p.begun, p.started, p.kinds, p.recent, p.lastTime = head, head, map[string]*kept{}, newRecent(p.Recent), now
	p.move(head)
	return nil
}

// batchMost is how many bytes a batch has before the next one begins. The tree keeps the memory of a few that are larger than its own until others
// follow, and the first change of a key in a segment brings along what the key was.
const batchMost = 1 << 20

// record takes the next changes of the log, up to a revision.
func (p *Past) record(ctx context.Context, events []kv.Event, rev int64) error {
	for {
		n := 0
		err := p.write(func(r *recording) (int64, error) {
			for ; n < len(events); n++ {
				if r.batch.Len() >= batchMost && events[n].ModRevision != r.last.ModRevision {
					return r.last.ModRevision, nil
				}
				if err := r.event(ctx, &events[n]); err != nil {
					return 0, err
				}
			}
			return rev, nil
		})
		if events = events[n:]; err != nil || len(events) == 0 {
			return err
		}
	}
}

// write makes a batch of changes, with which everything up to the revision that changes returns is here.
func (p *Past) write(changes func(*recording) (int64, error)) (err error) {
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
	r := recording{Past: p, batch: b, now: now, ms: max(p.lastTime, now.UnixMilli()), touched: map[string]bool{}}
	rev, err := changes(&r)
	if err != nil {
		return err
	}
	return r.commit(max(rev, p.reached))
}

// reload forgets what a batch that was not written has left in memory.
func (p *Past) reload() error {
	p.recent, p.kinds = newRecent(p.Recent), map[string]*kept{}
	return p.loadKinds()
}

// recording is a batch of changes.
type recording struct {
	*Past
	batch   *pebble.Batch
	now     time.Time
	ms      int64           // now, or later: times do not go back
	touched map[string]bool // kinds
	copied  bool            // from another past: a change that has no value before it had none
	last    *kv.Event
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
	r.last = e
	return nil
}

// before writes down what a key was when the segment began, unless the segment knows the key. It returns that, if it is known.
func (r *recording) before(ctx context.Context, s *segment, place []byte, name, key string, e *kv.Event, prev *value) (*value, error) {
	if prev == nil {
		known, newest, err := r.forgotten(ctx, s, place, name, key, e)
		if known || newest == nil || err != nil { // created, whatever the event says, if it is nil
			return newest, err
		}
		prev = newest
	}
	had := s.bytes
	r.put(s, appendChange(place, name, prev.rev), append(appendEntry(nil, before|whole, 0), prev.bytes...))
	s.bases += s.bytes - had
	return &value{bytes: prev.bytes, rev: prev.rev, segment: s.number}, nil
}

// forgotten returns what a key that is not among the recent ones was before a change, nil if it did not exist, and whether a segment knows it.
func (r *recording) forgotten(ctx context.Context, s *segment, place []byte, name, key string, e *kv.Event) (known bool, _ *value, err error) {
	if was, err := r.marked(ctx, key, e); was != nil || err != nil {
		return was != nil && was.segment == s.number, was, err
	}
	if known, newest, err := r.newest(s, place, name); known || err != nil {
		return known, newest, err
	}
	found, err := r.previous(ctx, e)
	if err != nil {
		return false, nil, fmt.Errorf("read what %s was before revision %d: %w", key, e.ModRevision, err)
	}
	if found == nil {
		return false, nil, nil
	}
	return false, &value{bytes: found.Value, rev: found.ModRevision}, nil
}

// previous returns what a key was before a change; nil: it did not exist. A log elsewhere has sent it along. One that is near is asked, because
// most changes do not need it.
func (r *recording) previous(ctx context.Context, e *kv.Event) (found *kv.KeyValue, err error) {
	if e.Prev.ModRevision > 0 {
		return &e.Prev, nil
	}
	if r.copied {
		return nil, nil
	}
	_, err = r.Log.Range(ctx, kv.Range{Key: string(e.Key), Rev: e.ModRevision - 1}, func(k kv.KeyValue) bool {
		found = &k
		return false
	})
	return found, err
}

// marked returns what a key was, if it is known how and where it is written down; nil: it is not. If an earlier segment has it, this one does
// not know the key.
func (r *recording) marked(ctx context.Context, key string, e *kv.Event) (*value, error) {
	m, ok := r.recent.marks.get(key)
	if !ok {
		return nil, nil
	}
	found, err := r.previous(ctx, e)
	if errors.Is(err, kv.ErrCompacted) || err == nil && (found == nil || found.ModRevision != m.rev) {
		return nil, nil // the tree has it
	}
	if err != nil {
		return nil, err
	}
	return &value{bytes: found.Value, rev: m.rev, segment: m.segment, depth: int(m.depth)}, nil
}

// newest says whether a segment knows a key, and what it was last; nil: it did not exist. A key that is not among the recent ones costs a look
// into the tree; to write it down as a whole each time costs ten times that.
func (r *recording) newest(s *segment, place []byte, name string) (known bool, _ *value, err error) {
	lower := append(append(place[:len(place):len(place)], name...), 0)
	it, err := r.tree.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: end(lower)})
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return false, nil, it.Error()
	}
	c := cursor{it: it, place: place}
	_, rev := ofChange(len(place), it.Key())
	bytes, what, depth, err := c.value(name)
	if err != nil || what&form == deleted {
		return true, nil, err
	}
	return true, &value{bytes: bytes, rev: rev, segment: s.number, depth: depth}, nil
}

// longest is how many deltas follow one another.
const longest = 32

// change returns what is written down of a change, and what the key is now, nil if it is gone.
func (r *recording) change(segment uint32, e *kv.Event, prev *value) ([]byte, *value) {
	if e.Deleted {
		return appendEntry(nil, deleted, r.ms), nil
	}
	flags := byte(0)
	if e.Created() {
		flags, prev = created, nil
	}
	next := &value{bytes: e.Value, rev: e.ModRevision, segment: segment}
	if prev != nil && prev.depth < longest {
		if d, ok := appendDelta(appendEntry(nil, flags|delta, r.ms), prev.bytes, e.Value, len(e.Value)/2, &r.recent.places); ok {
			next.depth = prev.depth + 1
			return d, next
		}
	}
	return append(appendEntry(nil, flags|whole, r.ms), e.Value...), next
}

// besides is about what is written down of a change beside itself: who made it, and when.
const besides = 128

func (r *recording) put(s *segment, key, value []byte) {
	s.bytes += int64(len(key)+len(value)) + besides
	r.set(key, value)
}

// lastChange is the batch's last change. Only this one's value is hashed: that costs more than to write the change.
func (r *recording) lastChange() lastChange {
	key := strings.TrimPrefix(string(r.last.Key), r.Prefix)
	if r.last.Deleted {
		return lastChange{key: key, rev: r.last.ModRevision, deleted: true}
	}
	return lastChangeOf(key, r.last.ModRevision, r.last.Value)
}

// commit ends the batch: everything up to a revision is in it.
func (r *recording) commit(rev int64) error {
	if len(r.touched) > 0 {
		r.set(numbered(timeSpace, r.ms), bytesOf(rev))
		last := r.lastChange()
		r.set(lastKey, last.bytes())
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
	r.recent.shrink()
	if len(r.touched) > 0 {
		r.lastTime = r.ms
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
