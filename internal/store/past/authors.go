package past

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

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

// mostNames bounds the authors whose numbers are known.
const mostNames = 10000

// addAuthors writes down those that wait.
func (p *Past) addAuthors(set func(key, value []byte)) {
	p.saying.Lock()
	defer p.saying.Unlock()
	for _, a := range p.authors {
		set(numbered(authorSpace, a.rev), append(bytesOf(p.number(&a.Author, set)), a.Request...))
	}
	p.authors = p.authors[:0]
}

// number returns the number of an author, which is written down if it is new.
func (p *Past) number(a *store.Author, set func(key, value []byte)) int64 {
	name := *a
	name.Request = ""
	text, err := json.Marshal(name)
	if err != nil {
		return 0
	}
	if n, ok := p.names[string(text)]; ok {
		return n
	}
	if len(p.names) >= mostNames {
		clear(p.names)
	}
	p.lastName++
	p.names[string(text)] = p.lastName
	set(numbered(nameSpace, p.lastName), text)
	return p.lastName
}

// loadNames reads which numbers authors have.
func (p *Past) loadNames() error {
	p.names = map[string]int64{}
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{nameSpace}, UpperBound: []byte{nameSpace + 1}})
	if err != nil {
		return err
	}
	for ok := it.Last(); ok && len(p.names) < mostNames; ok = it.Prev() {
		n := ofNumbered(it.Key())
		p.names[string(it.Value())] = n
		p.lastName = max(p.lastName, n)
	}
	return errors.Join(it.Error(), it.Close())
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
	n, size := binary.Varint(value)
	request := string(value[max(size, 0):])
	if err := done.Close(); err != nil {
		return a, err
	}
	name, done, err := r.Get(numbered(nameSpace, n))
	if errors.Is(err, pebble.ErrNotFound) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	err = json.Unmarshal(name, &a)
	a.Request = request
	return a, errors.Join(err, done.Close())
}
