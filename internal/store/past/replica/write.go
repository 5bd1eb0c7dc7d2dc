package replica

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/past"
)

// Config says what is shared, and where.
type Config struct {
	DB store.DB
	// Prefix is that of the keys, none of which are below Past's.
	Prefix string
	// Kept names what of objects is kept: servers that keep something else do not share with this one.
	Kept string
	// Age and Bytes bound what is shared, as it lies in the database.
	Age   time.Duration
	Bytes int64
	// Server names this start of this server.
	Server string
	Clock  clock.Clock
	Log    *slog.Logger
}

// Replica is the copy of a past that servers share.
type Replica struct {
	Config
	past *past.Past

	mu   sync.Mutex
	head *head // that was read or written last; nil: none was. Guarded by mu
	mine bool  // the newest chunk was begun here. Guarded by mu
	idle int   // how often in a row another one's head was found unchanged. Guarded by mu
}

// New makes a Replica. Of is called before Run.
func New(c Config) *Replica { return &Replica{Config: c} }

// Of says which past is shared.
func (s *Replica) Of(p *past.Past) { s.past = p }

const (
	// every is how often changes are added. The log must reach back for much longer.
	every = 30 * time.Second
	// patience is how often another writer may be found idle before this server takes over.
	patience = 3
	// A chunk grows until it has so many bytes, or so much time has gone since it was begun.
	enoughBytes, enoughTime = 256 << 10, 5 * time.Minute
	// mostBytes is what a chunk may have; with it, a transaction is no larger than databases accept.
	mostBytes = kv.MaxBytes - kv.MaxBytes/8
	// atATime is how many bytes of changes are taken at a time, before they are compressed, and mostTimes how often in a row: what is left
	// waits for the next time.
	atATime, mostTimes = 8 << 20, 16
)

// Run adds to what is shared, and forgets what others say, until ctx ends.
func (s *Replica) Run(ctx context.Context) {
	var forgetting sync.WaitGroup
	defer forgetting.Wait()
	forgetting.Go(func() { s.followForgotten(ctx) })
	seldom := logs.NewSeldom(s.Log, s.Clock, time.Minute)
	for {
		select {
		case <-s.Clock.After(every):
		case <-ctx.Done():
			return
		}
		if err := s.Once(ctx); err != nil && ctx.Err() == nil {
			seldom.Warn("once", "the history could not be shared with other servers, trying again", "error", err)
		}
	}
}

// Once adds what has changed, if it is this server's turn.
func (s *Replica) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, every) // who wants to forget waits
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn, err := s.turn(ctx); err != nil || !turn {
		return err
	}
	until := s.past.Reached()
	for range mostTimes {
		held, err := s.add(ctx)
		if err != nil || !held || s.head.Reached >= until {
			return err
		}
	}
	return nil
}

// turn says whether this server is the writer, and reads the head if it is not known.
func (s *Replica) turn(ctx context.Context) (bool, error) {
	if s.head != nil && s.head.Writer == s.Server {
		return true, nil
	}
	h, err := s.load(ctx)
	if errors.Is(err, errDamaged) {
		s.Log.Warn("the history that servers share is dropped", "error", err)
		err = s.clear(ctx)
	}
	if err != nil {
		return false, err
	}
	if h.Writer != "" && h.Kept != s.Kept && (s.head == nil || s.head.Kept != h.Kept) {
		s.Log.Warn("the history is not shared with the other servers of this etcd, which keep other changes (--history, --history-kinds)", "here", s.Kept, "there", h.Kept)
	}
	if s.head == nil || s.head.rev != h.rev {
		s.idle = 0
	} else {
		s.idle++
	}
	s.head, s.mine = h, false
	return h.Writer == "" || s.idle >= patience, nil
}

// add adds the next changes: to the newest chunk, if that was begun here, or else as a new one. It reports false if there are none yet, or
// another server has written meanwhile.
func (s *Replica) add(ctx context.Context) (bool, error) {
	own := s.past.Reached()
	if own == 0 || s.head.Reached > own {
		return false, nil
	}
	if s.head.Writer == "" || s.head.Kept != s.Kept {
		return s.begin(ctx)
	}
	next := *s.head
	next.Writer, next.Chunks = s.Server, slices.Clone(s.head.Chunks)
	from, least := chunk{Number: next.Made + 1, After: next.Reached, Begun: s.Clock.Now().UnixMilli()}, leastBytes
	if last := len(next.Chunks) - 1; s.mine && last >= 0 {
		from, next.Chunks, least = next.Chunks[last], next.Chunks[:last], atATime
	}
	changes, reached, value, err := s.after(ctx, from.After, least)
	missing := errors.Is(err, kv.ErrCompacted) || errors.Is(err, kv.ErrTooLarge)
	isNew := len(changes) > 0 && changes[len(changes)-1].ModRevision > next.Reached
	switch {
	case missing && !s.mine:
		s.Log.Warn("the history that servers share has a gap, and begins anew", "revision", own, "error", err)
		return s.beginAt(ctx, own, s.Clock.Now())
	case s.mine && (missing || err == nil && (len(value) > mostBytes || !isNew && reached < own)):
		s.mine = false // the chunk is left as it is: no more go into it
		return true, nil
	case err != nil:
		return false, err
	case !isNew:
		next.Reached, next.Chunks = reached, s.head.Chunks
		return s.put(ctx, &next, nil, nil)
	}
	from.Last, from.Bytes, from.Parts, from.At = reached, int64(len(value)), len(parts(value)), s.Clock.Now().UnixMilli()
	next.Reached, next.Made, next.Chunks = reached, max(next.Made, from.Number), append(next.Chunks, from)
	return s.put(ctx, &next, &from, value)
}

// put commits a head.
func (s *Replica) put(ctx context.Context, next *head, grown *chunk, value []byte) (bool, error) {
	held, err := s.commit(ctx, next, grown, value)
	if err != nil || !held {
		s.head, s.mine = nil, false // it is not known what is there
		return false, err
	}
	s.head = next
	if grown != nil {
		s.mine = grown.Bytes < enoughBytes && grown.At-grown.Begun < enoughTime.Milliseconds()
	}
	return true, nil
}

// begin begins where the past of this server begins, or if that is much, where it is now.
func (s *Replica) begin(ctx context.Context) (bool, error) {
	if s.past.Size() > atATime {
		return s.beginAt(ctx, s.past.Reached(), s.Clock.Now())
	}
	begun, at, err := s.past.Complete()
	if err != nil {
		return false, err
	}
	return s.beginAt(ctx, begun, at)
}

// beginAt drops what is there, and begins at a revision that was reached at a time.
func (s *Replica) beginAt(ctx context.Context, begun int64, at time.Time) (bool, error) {
	s.mine = false
	next := &head{Writer: s.Server, Kept: s.Kept, Begun: begun, BegunAt: at.UnixMilli(), Reached: begun, Made: s.head.Made,
		Dropped: slices.Concat(s.head.Dropped, s.head.Chunks), rev: s.head.rev}
	return s.put(ctx, next, nil, nil)
}

// leastBytes is to how many bytes of changes a new chunk is cut down, if it would be too large: those of one revision may be more, and make
// several parts.
const leastBytes = 64 << 10

// after makes a chunk of the changes after a revision: of as many as it can have, or of least bytes.
func (s *Replica) after(ctx context.Context, rev int64, least int) (changes []past.Dated, reached int64, value []byte, err error) {
	for most := atATime; ; most /= 2 {
		changes, reached, err = s.past.After(ctx, rev, most)
		if err != nil {
			return nil, 0, nil, err
		}
		value = encode(changes)
		if len(value) <= mostBytes || most <= least || changes[0].ModRevision == changes[len(changes)-1].ModRevision {
			return changes, reached, value, nil
		}
	}
}
