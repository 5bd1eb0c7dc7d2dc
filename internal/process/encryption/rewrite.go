package encryption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
)

// Rewriter stores anew, while the server serves, what former keys and providers have encrypted, and says which of them are
// still needed. Each value is replaced by the same value if nobody has written it meanwhile, so nothing can be lost, and
// what was rewritten need not be again: after an interruption it goes on with what is left.
type Rewriter struct {
	Encryption *Encryption
	Stores     []*store.Store
	// Resource returns the resource whose object is at a key below the store's prefix; false: this server serves none there.
	Resource func(key string) (schema.GroupResource, bool)
	Clock    clock.PassiveClock
}

// Progress is how far a Rewriter has come.
type Progress struct {
	// Step is "rewrite", "count" or "history".
	Step string `json:"step"`
	// Done of Total values were looked at; Total is 0 if it is not known.
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
	// Rewritten values were stored anew.
	Rewritten int64 `json:"rewritten"`
}

// Problem is a value that cannot be rewritten.
type Problem struct {
	Key    string `json:"key"` // in etcd
	Reason string `json:"reason"`
}

// Usage is how much a key or provider is in use.
type Usage struct {
	Source
	// Writes says that new values are encrypted with it.
	Writes bool `json:"writes,omitempty"`
	// Values is how many values are encrypted with it, and History how many that clients can still ask for: those, and former
	// ones until etcd's history is compacted.
	Values  int64 `json:"values"`
	History int64 `json:"history"`
}

// Removable says that nothing needs it any more.
func (u Usage) Removable() bool { return !u.Writes && u.Values == 0 && u.History == 0 }

// Report is what is stored, and how.
type Report struct {
	// Config is the hash of the configuration in force.
	Config string  `json:"config"`
	Values int64   `json:"values"`
	Usage  []Usage `json:"usage"`
	// Rewritten values were stored anew; Left are those that still would be stored differently now.
	Rewritten int64 `json:"rewritten"`
	Left      int64 `json:"left"`
	// Problems are values that this server cannot read, at most as many as are told; Unreadable is their number.
	Problems   []Problem `json:"problems,omitempty"`
	Unreadable int64     `json:"unreadable"`
}

const (
	rewriters    = 8    // values that are rewritten at a time
	problemsTold = 1000 // at most
	tellEvery    = 100 * time.Millisecond
)

// Run rewrites, if it is asked to, and reports. It calls tell now and then, from one goroutine at a time.
func (r *Rewriter) Run(ctx context.Context, rewrite bool, tell func(Progress)) (*Report, error) {
	p := &progress{clock: r.Clock, tell: tell}
	for _, s := range r.Stores {
		n, err := s.Count(ctx)
		if err != nil {
			return nil, err
		}
		p.total += n
	}
	if rewrite {
		p.begin("rewrite", p.total)
		for _, s := range r.Stores {
			if err := r.rewrite(ctx, s, p); err != nil {
				return nil, err
			}
		}
	}
	in := r.Encryption.current.Load()
	c := &count{report: &Report{Config: in.hash, Rewritten: p.rewritten.Load()}, used: map[Source]*Usage{}}
	for _, step := range []func(context.Context, *store.Store, *count, *progress) error{r.count, r.history} {
		for _, s := range r.Stores {
			if err := step(ctx, s, c, p); err != nil {
				return nil, err
			}
		}
	}
	p.begin("", 0)
	c.report.Usage = c.usage(in)
	return c.report, nil
}

// rewrite rewrites the values of a store that are stale.
func (r *Rewriter) rewrite(ctx context.Context, s *store.Store, p *progress) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(rewriters)
	_, err := s.Stored(ctx, 0, func(v store.Stored) bool {
		p.done()
		workers.Go(func() error {
			return r.Encryption.Guard.Call("rewriting a value", func() error { return r.rewriteOne(ctx, s, v, p) })
		})
		return true
	})
	// Why a worker has failed says more than that the reading was ended for it.
	return cmp.Or(workers.Wait(), err)
}

func (r *Rewriter) rewriteOne(ctx context.Context, s *store.Store, v store.Stored, p *progress) error {
	value, stale, _, err := r.inspect(ctx, s, v)
	if err != nil || !stale {
		return nil //nolint:nilerr // the report has what cannot be read
	}
	resource, _ := r.Resource(v.Key)
	path := s.Path(v.Key)
	sealed, err := r.Encryption.Transformer(resource).ToStorage(ctx, path, value)
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", path, err)
	}
	replaced, err := s.Replace(ctx, v.Key, v.Rev, sealed)
	if err != nil {
		return fmt.Errorf("store %s: %w", path, err)
	}
	if replaced { // else another write came before, or deleted it
		p.rewritten.Add(1)
	}
	return nil
}

// errNotServed is why an encrypted value of an unknown resource cannot be rewritten.
var errNotServed = errors.New("it is encrypted, and this server serves no resource with such a key")

// inspect decrypts a stored value. What belongs to no resource is as it is, unless it is encrypted.
func (r *Rewriter) inspect(ctx context.Context, s *store.Store, v store.Stored) ([]byte, bool, Source, error) {
	resource, served := r.Resource(v.Key)
	if !served {
		if hasPrefix(v.Bytes, encryptedPrefix) {
			return nil, false, Source{}, fmt.Errorf("%w (%s)", errNotServed, prefixOf(v.Bytes))
		}
		return v.Bytes, false, Source{Provider: "identity"}, nil
	}
	return r.Encryption.Inspect(ctx, resource, s.Path(v.Key), v.Bytes)
}

// prefixOf is the readable beginning of an encrypted value: "k8s:enc:aescbc:v1:key:".
func prefixOf(stored []byte) string {
	const parts, longest = 5, 128
	text := string(stored[:min(len(stored), longest)])
	at := 0
	for range parts {
		n := strings.IndexByte(text[at:], ':')
		if n < 0 {
			break
		}
		at += n + 1
	}
	return text[:at]
}

// count counts what values are encrypted with.
type count struct {
	report *Report
	used   map[Source]*Usage
}

func (c *count) of(by Source) *Usage {
	u := c.used[by]
	if u == nil {
		u = &Usage{Source: by}
		c.used[by] = u
	}
	return u
}

// count counts the values of a store.
func (r *Rewriter) count(ctx context.Context, s *store.Store, c *count, p *progress) error {
	p.begin("count", p.total)
	_, err := s.Stored(ctx, 0, func(v store.Stored) bool {
		p.done()
		c.report.Values++
		_, stale, by, err := r.inspect(ctx, s, v)
		if err != nil {
			if c.report.Unreadable++; c.report.Unreadable <= problemsTold {
				c.report.Problems = append(c.report.Problems, Problem{s.Path(v.Key), err.Error()})
			}
			return true
		}
		if stale {
			c.report.Left++
		}
		c.of(by).Values++
		return true
	})
	return err
}

// history counts the values of a store that can still be asked for.
func (r *Rewriter) history(ctx context.Context, s *store.Store, c *count, p *progress) error {
	p.begin("history", 0)
	_, _, err := s.StoredHistory(ctx, func(v store.Stored) {
		p.done()
		if _, _, by, err := r.inspect(ctx, s, v); err == nil {
			c.of(by).History++
		}
	})
	return err
}

// usage lists what is configured, and beside a plugin the keys that it has used.
func (c *count) usage(in *setup) (out []Usage) {
	configured, writes := in.sources()
	for _, by := range configured {
		var keys []Usage
		for used, u := range c.used {
			if used.At == by.At && used.Plugin != "" {
				u.Writes = writes[by.At] && in.writesWith(used)
				keys = append(keys, *u)
			}
		}
		if keys == nil {
			keys = []Usage{*c.of(by)}
			keys[0].Writes = writes[by.At]
		}
		sortUsage(keys)
		out = append(out, keys...)
	}
	if u := c.used[Source{Provider: "identity"}]; u != nil {
		u.Writes = true // what no resource of the configuration covers
		out = append(out, *u)
	}
	return out
}

// progress tells how far a Rewriter has come.
type progress struct {
	clock     clock.PassiveClock
	tell      func(Progress)
	total     int64 // values in all stores
	rewritten atomic.Int64

	mu   sync.Mutex
	now  Progress  // guarded by mu
	told time.Time // when; guarded by mu
}

func (p *progress) begin(step string, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Step != step {
		p.tellLocked() // how the last step has ended
		p.now = Progress{Step: step, Total: total}
	}
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Done++
	if p.clock.Since(p.told) >= tellEvery {
		p.tellLocked()
	}
}

func (p *progress) tellLocked() {
	if p.now.Step != "" {
		p.told, p.now.Rewritten = p.clock.Now(), p.rewritten.Load()
		p.tell(p.now)
	}
}
