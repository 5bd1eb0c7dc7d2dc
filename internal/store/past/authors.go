package past

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store"
)

// authored is the author of a revision that is not written down yet.
type authored struct {
	rev int64
	store.Author
}

// mostAuthors bounds those that wait to be written down.
const mostAuthors = 10000

// Wrote says who made a revision: it may be told before or after the change itself has come.
func (p *Past) Wrote(rev int64, a store.Author) {
	p.saying.Lock()
	defer p.saying.Unlock()
	if len(p.authors) < mostAuthors {
		p.authors = append(p.authors, authored{rev, a})
	}
}

// addAuthors writes down those that wait.
func (p *Past) addAuthors(set func(key, value []byte)) {
	p.saying.Lock()
	defer p.saying.Unlock()
	for _, a := range p.authors {
		set(numbered(authorSpace, a.rev), authorBytes(&a.Author))
	}
	p.authors = p.authors[:0]
}

// maxName bounds each text about an author: clients choose them.
const maxName = 256

func authorBytes(a *store.Author) (to []byte) {
	for _, text := range []string{a.User, a.UserAgent, a.Verb, a.Subresource, a.Request} {
		to = append(append(to, strings.ReplaceAll(text[:min(len(text), maxName)], "\x00", "")...), 0)
	}
	return to
}

func ofAuthorBytes(b []byte) (a store.Author) {
	texts := strings.Split(string(b), "\x00")
	for n, to := range []*string{&a.User, &a.UserAgent, &a.Verb, &a.Subresource, &a.Request} {
		if n < len(texts) {
			*to = texts[n]
		}
	}
	return a
}

// flushAuthors writes down those that wait for a change that does not come.
func (p *Past) flushAuthors() (err error) {
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.Recover(&err)
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.tree.NewBatch()
	p.addAuthors(func(key, value []byte) { err = errors.Join(err, b.Set(key, value, nil)) })
	return errors.Join(err, b.Commit(pebble.NoSync))
}

// addAuthorsTo says of changes, in the order of their revisions, who made them.
func (p *Past) addAuthorsTo(changes []Dated) error {
	if len(changes) == 0 {
		return nil
	}
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: numbered(authorSpace, changes[0].ModRevision), UpperBound: []byte{authorSpace + 1}})
	if err != nil {
		return err
	}
	ok := it.First()
	for n := range changes {
		d := &changes[n]
		for ok && ofNumbered(it.Key()) < d.ModRevision {
			ok = it.Next()
		}
		if ok && ofNumbered(it.Key()) == d.ModRevision {
			d.Author = ofAuthorBytes(it.Value())
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	for _, w := range p.authors { // that are not written down yet
		n, _ := slices.BinarySearchFunc(changes, w.rev, func(d Dated, rev int64) int { return cmp.Compare(d.ModRevision, rev) })
		for ; n < len(changes) && changes[n].ModRevision == w.rev; n++ {
			changes[n].Author = w.Author
		}
	}
	return nil
}

// author returns who made a revision.
func (p *Past) author(r pebble.Reader, rev int64) (a store.Author, err error) {
	p.saying.Lock()
	if n := slices.IndexFunc(p.authors, func(w authored) bool { return w.rev == rev }); n >= 0 {
		a = p.authors[n].Author
		p.saying.Unlock()
		return a, nil
	}
	p.saying.Unlock()
	value, done, err := r.Get(numbered(authorSpace, rev))
	if errors.Is(err, pebble.ErrNotFound) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	a = ofAuthorBytes(value)
	return a, done.Close()
}
