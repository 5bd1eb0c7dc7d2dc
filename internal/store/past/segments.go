package past

import (
	"encoding/binary"
	"errors"
	"sort"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A kind's changes are kept in so many segments, by their age and by their size, before there is something to drop. Of many keys it is much
// what they were when a segment began: then segments are as large as it takes to have as much of changes, but there are not fewer than
// fewestOfSize.
const (
	segmentsOfAge  = 24
	segmentsOfSize = 64
	fewestOfSize   = 4
	// largest and smallest are bounds of a segment's bytes: whoever asks for changes looks at whole segments.
	smallest, largest = 1 << 16, 32 << 20
)

// shortest is the least time that a segment lasts.
const shortest = time.Minute

// kept is what is kept of a kind.
type kept struct {
	since    int64 // the revision from which on its past is known
	segments []segment
}

// segment has a kind's changes from one revision to another one.
type segment struct {
	number       uint32
	first, last  int64
	begun, ended time.Time // when these came
	bytes        int64
	bases        int64 // of these, what keys were when it began
}

func (k *kept) bytes() (n int64) {
	for _, s := range k.segments {
		n += s.bytes
	}
	return n
}

// from returns the segments that can have something about a revision or later ones.
func (k *kept) from(rev int64) []segment {
	n := sort.Search(len(k.segments), func(n int) bool { return k.segments[n].first > rev })
	return k.segments[max(n-1, 0):]
}

// loadKinds reads the kinds and their segments.
func (p *Past) loadKinds() error {
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{kindSpace}, UpperBound: []byte{kindSpace + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		since, _ := binary.Varint(it.Value())
		p.kinds[string(it.Key()[1:])] = &kept{since: since}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if it, err = p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{segmentSpace}, UpperBound: []byte{segmentSpace + 1}}); err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		kind, number, ok := strings.Cut(string(it.Key()[1:]), "\x00")
		if k := p.kinds[kind]; ok && k != nil && len(number) == 4 {
			s := readSegment(binary.BigEndian.Uint32([]byte(number)), it.Value())
			k.segments, p.newest = append(k.segments, s), max(p.newest, s.number)
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func readSegment(number uint32, value []byte) segment {
	var n [6]int64 // the last one was not there always
	for i := range n {
		v, size := binary.Varint(value)
		n[i], value = v, value[max(size, 0):]
	}
	return segment{number, n[0], n[1], time.UnixMilli(n[2]), time.UnixMilli(n[3]), n[4], n[5]}
}

func (s *segment) value() (to []byte) {
	for _, n := range [...]int64{s.first, s.last, s.begun.UnixMilli(), s.ended.UnixMilli(), s.bytes, s.bases} {
		to = binary.AppendVarint(to, n)
	}
	return to
}

// current returns the segment for a change of a kind at a revision; nil: its changes are not kept.
func (p *Past) current(b *pebble.Batch, kind string, rev int64, now time.Time) (*segment, error) {
	age := p.Age(kind)
	if age <= 0 {
		return nil, nil
	}
	k := p.kinds[kind]
	if k == nil {
		k = &kept{since: p.begun}
		p.kinds[kind] = k
		if err := b.Set(append([]byte{kindSpace}, kind...), bytesOf(k.since), nil); err != nil {
			return nil, err
		}
	}
	if n := len(k.segments); n > 0 {
		s := &k.segments[n-1]
		if !p.full(s) && now.Sub(s.begun) < max(age/segmentsOfAge, shortest) || s.last == rev {
			return s, nil
		}
	}
	// No number comes twice, also if everything of a kind was dropped: by it the recent values know which segment has them.
	p.newest++
	next := segment{number: p.newest, first: rev, begun: now}
	k.segments = append(k.segments[:len(k.segments):len(k.segments)], next) // readers have the slice
	return &k.segments[len(k.segments)-1], nil
}

// full says whether a segment has so much that another one begins.
func (p *Past) full(s *segment) bool {
	enough := max(min(max(p.Bytes/segmentsOfSize, smallest), largest), s.bases)
	return s.bytes-s.bases >= enough || s.bytes >= max(p.Bytes/fewestOfSize, smallest)
}

// trim drops what is too old, and what is too much. It returns the number of segments that it has dropped.
func (p *Past) trim() (n int, err error) {
	done, err := p.use()
	if err != nil {
		return 0, err
	}
	defer done()
	defer p.broken.Recover(&err)
	b := p.tree.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	for kind, k := range p.kinds {
		for len(k.segments) > 0 && now.Sub(k.segments[0].ended) > p.Age(kind) {
			n++
			if err := p.drop(b, kind, k); err != nil {
				return 0, err
			}
		}
	}
	for {
		kind, total := p.heaviest()
		if total <= p.Bytes || kind == "" {
			break
		}
		n++
		if err := p.drop(b, kind, p.kinds[kind]); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	if err := p.dropRevisions(b); err != nil {
		return 0, err
	}
	return n, b.Commit(pebble.NoSync)
}

// heaviest is the kind of which most is kept, of those that have a segment to drop, and how much there is of all.
func (p *Past) heaviest() (kind string, total int64) {
	most := int64(-1)
	for name, k := range p.kinds {
		n := k.bytes()
		total += n
		if len(k.segments) > 1 && (n > most || n == most && name < kind) {
			kind, most = name, n
		}
	}
	return kind, total
}

// drop drops the oldest segment of a kind.
func (p *Past) drop(b *pebble.Batch, kind string, k *kept) error {
	oldest := segmentKey(changeSpace, kind, k.segments[0].number)
	k.since = max(k.since, k.segments[0].last)
	k.segments = k.segments[1:]
	return errors.Join(
		b.DeleteRange(oldest, end(oldest), nil),
		b.Delete(append([]byte{segmentSpace}, oldest[1:]...), nil),
		b.Set(append([]byte{kindSpace}, kind...), bytesOf(k.since), nil))
}

// dropRevisions drops what is known of revisions that no kind reaches back to.
func (p *Past) dropRevisions(b *pebble.Batch) error {
	oldest := p.reached
	for _, k := range p.kinds {
		if len(k.segments) > 0 {
			oldest = min(oldest, k.since)
		}
	}
	if oldest <= p.begun {
		return nil
	}
	p.begun = oldest
	for kind, k := range p.kinds {
		if len(k.segments) == 0 && k.since <= oldest { // its objects have not changed since
			delete(p.kinds, kind)
			if err := b.Delete(append([]byte{kindSpace}, kind...), nil); err != nil {
				return err
			}
		}
	}
	at, err := p.timeBefore(oldest)
	if err != nil {
		return err
	}
	return errors.Join(
		b.Set(begunKey, bytesOf(oldest), nil),
		b.DeleteRange([]byte{authorSpace}, numbered(authorSpace, oldest), nil),
		b.DeleteRange([]byte{timeSpace}, numbered(timeSpace, at), nil))
}

// timeBefore returns the newest time in timeSpace at which a revision was not reached yet, or just so.
func (p *Past) timeBefore(rev int64) (ms int64, err error) {
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{timeSpace}, UpperBound: []byte{timeSpace + 1}})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if reached, _ := binary.Varint(it.Value()); reached > rev {
			break
		}
		ms = ofNumbered(it.Key())
	}
	return ms, errors.Join(it.Error(), it.Close())
}
