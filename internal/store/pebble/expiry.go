package pebble

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// expiry deletes keys that have ended.
type expiry struct {
	d      *DB
	sooner chan struct{} // a token: there is an end before next

	mu   sync.Mutex
	next int64 // the end that run waits for; 0: it waits for none, or is looking
}

func newExpiry(d *DB) *expiry { return &expiry{d: d, sooner: make(chan struct{}, 1)} }

// wake tells of an end.
func (e *expiry) wake(ends int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next != 0 && ends >= e.next {
		return
	}
	select {
	case e.sooner <- struct{}{}:
	default: // run looks again anyway
	}
}

func (e *expiry) waitsFor(next int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next = next
}

// seldom is how often ends are looked for if there are none.
const seldom = time.Hour

// tryAgain is the pause after ends could not be carried out.
const tryAgain = time.Second

// run deletes keys as they end, until ctx ends.
func (e *expiry) run(ctx context.Context) {
	for ctx.Err() == nil {
		e.waitsFor(0) // an end that comes now may not be found
		next, err := e.expire(ctx)
		e.waitsFor(next)
		pause := seldom
		switch {
		case err != nil:
			pause = tryAgain
		case next != 0:
			pause = min(pause, time.Unix(0, next).Sub(e.d.clock.Now()))
		}
		e.sleep(ctx, pause)
	}
}

// sleep pauses until ctx ends, or until there is an end before the one that is waited for.
func (e *expiry) sleep(ctx context.Context, pause time.Duration) {
	timer := e.d.clock.NewTimer(max(0, pause))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-e.sooner:
	case <-ctx.Done():
	}
}

// expire deletes what has ended, and returns when the next end is; 0: there is none.
func (e *expiry) expire(ctx context.Context) (next int64, err error) {
	now := e.d.clock.Now().UnixNano()
	ended, next, err := e.ended(now)
	if err != nil || len(ended) == 0 {
		return next, err
	}
	waits, err := e.d.delete(ended)
	if err == nil {
		err = e.d.durable.wait(ctx, waits)
	}
	return 1, err // at once: there may be more
}

// end is a key and the time at which it was to end.
type end struct {
	key string
	at  int64
}

// ended returns keys that have ended, no more than a transaction takes; without any, the time of the next end.
func (e *expiry) ended(now int64) (keys []end, next int64, err error) {
	it, err := e.d.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{endsSpace}, UpperBound: spaceEnd(endsSpace)})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	for valid := it.First(); valid && len(keys) < kv.MaxOps; valid = it.Next() {
		at, key := ofEnd(it.Key())
		if at > now {
			return keys, at, nil
		}
		keys = append(keys, end{key, at})
	}
	return keys, 0, it.Error()
}

// delete deletes keys at one revision, but for those that have another end by now.
func (d *DB) delete(ended []end) (waits *group, err error) {
	defer d.broken.Recover(&err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.broken.Err(); err != nil {
		return nil, err
	}
	now := d.newest()
	defer func() { err = firstError(err, now.close()) }()
	w := d.begin(len(ended))
	for _, e := range ended {
		was, err := now.find(e.key)
		switch {
		case err != nil:
		case was.version > 0 && was.ends == e.at:
			err = w.carryOut(now, kv.Op{Delete: true, Key: e.key})
		default: // it ends at another time, or is gone: it would be found again and again
			err = d.tree.Delete(endKey(e.at, e.key), pebble.NoSync)
		}
		if err != nil {
			return nil, errors.Join(err, w.batch.Close())
		}
	}
	return w.end()
}
