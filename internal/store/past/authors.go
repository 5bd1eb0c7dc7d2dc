package past

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Author is who made a change, and how.
type Author struct {
	User      string `json:"u,omitempty"`
	As        string `json:"i,omitempty"` // whom the user impersonated
	UserAgent string `json:"a,omitempty"`
	Verb      string `json:"v,omitempty"`
	// Subresource that was asked for.
	Subresource string `json:"s,omitempty"`
	// Request is its audit ID.
	Request string `json:"r,omitempty"`
}

// authored is the author of a revision that is not written down yet.
type authored struct {
	rev int64
	Author
}

// mostAuthors bounds those that wait to be written down.
const mostAuthors = 10000

// Wrote says who made a revision: it may be told before or after the change itself has come.
func (p *Past) Wrote(rev int64, a Author) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.authors) < mostAuthors {
		p.authors = append(p.authors, authored{rev, a})
	}
}

// addAuthors writes down those that wait.
func (p *Past) addAuthors(set func(key, value []byte)) {
	for _, a := range p.authors {
		if value, err := json.Marshal(a.Author); err == nil {
			set(numbered(authorSpace, a.rev), value)
		}
	}
	p.authors = p.authors[:0]
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
	if len(p.authors) == 0 {
		return nil
	}
	b := p.tree.NewBatch()
	p.addAuthors(func(key, value []byte) { err = errors.Join(err, b.Set(key, value, nil)) })
	return errors.Join(err, b.Commit(pebble.NoSync))
}

// author returns who made a revision.
func (p *Past) author(r pebble.Reader, rev int64) (a Author, err error) {
	p.mu.Lock()
	if n := slices.IndexFunc(p.authors, func(w authored) bool { return w.rev == rev }); n >= 0 {
		a = p.authors[n].Author
		p.mu.Unlock()
		return a, nil
	}
	p.mu.Unlock()
	value, done, err := r.Get(numbered(authorSpace, rev))
	if errors.Is(err, pebble.ErrNotFound) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	err = json.Unmarshal(value, &a)
	return a, errors.Join(err, done.Close())
}
