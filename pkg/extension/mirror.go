package extension

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// mirror is the log of a kind whose objects are behind functions: a log in memory that is brought up to what the source
// lists before anybody is told how new it is, and to which nothing is written that the source has not taken. To the
// store it is a database like any other.
type mirror struct {
	*memory.DB
	source     *source
	prefix     string // of the keys
	apiVersion string
	kind       string
	namespaced bool
	clock      clock.Clock
	changed    chan struct{} // has something in it when the source has told of a change

	// lock is held while the source is asked, so that what it lists and what is written come in one order.
	lock  chan struct{}
	begun atomic.Int64 // how many times List was called
	done  atomic.Int64 // the last call that succeeded; written under lock
	at    time.Time    // when that began; guarded by lock
}

// Head is part of store.DB.
func (m *mirror) Head(ctx context.Context) (int64, error) {
	if err := m.sync(ctx, m.source.maxAge); err != nil {
		return 0, err
	}
	return m.DB.Head(ctx)
}

// Range is part of store.DB. The newest state is what the source has, and there is nothing to read before it was asked
// once.
func (m *mirror) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.Rev == 0 || m.done.Load() == 0 {
		if err := m.sync(ctx, m.source.maxAge); err != nil {
			return kv.Answer{}, err
		}
	}
	return m.DB.Range(ctx, r, yield)
}

// hold takes the lock; the func gives it back.
func (m *mirror) hold(ctx context.Context) (release func(), err error) {
	select {
	case m.lock <- struct{}{}:
		return func() { <-m.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sync brings the log up to what the source lists, unless what it has listed is younger than maxAge. Callers that come
// while the source is being asked share the next answer.
func (m *mirror) sync(ctx context.Context, maxAge time.Duration) error {
	before := m.begun.Load()
	release, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if done := m.done.Load(); done > before || done > 0 && m.clock.Since(m.at) < maxAge {
		return nil
	}
	return m.ask(ctx)
}

// ask brings the log up to what the source lists. The caller has the lock.
func (m *mirror) ask(ctx context.Context) error {
	call, at := m.begun.Add(1), m.clock.Now()
	items, err := m.source.list(ctx)
	if err != nil {
		return err
	}
	if err := m.take(ctx, items); err != nil {
		return err
	}
	m.done.Store(call)
	m.at = at
	return nil
}

// take makes the log hold these items and no others, in one transaction.
func (m *mirror) take(ctx context.Context, items []item) error {
	known := map[string][]byte{}
	everything := kv.Range{Key: m.prefix, End: kv.PrefixEnd(m.prefix)}
	if _, err := m.DB.Range(ctx, everything, func(k kv.KeyValue) bool {
		known[string(k.Key)] = k.Value
		return true
	}); err != nil {
		return err
	}
	var ops []kv.Op
	for _, i := range items {
		key, err := m.key(i)
		if err != nil {
			return err
		}
		value, err := m.value(key, i.json, known[key])
		if err != nil {
			return err
		}
		if !bytes.Equal(value, known[key]) {
			ops = append(ops, kv.Op{Key: key, Value: value})
		}
		delete(known, key)
	}
	for key := range known {
		ops = append(ops, kv.Op{Delete: true, Key: key})
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := m.DB.Commit(ctx, kv.Txn{Then: ops})
	return err
}

func (m *mirror) key(i item) (string, error) {
	switch {
	case i.name == "", strings.Contains(i.name+i.namespace, "/"):
		return "", fmt.Errorf("%s: List returned an object with the name %q in the namespace %q", m.kind, i.name, i.namespace)
	case m.namespaced != (i.namespace != ""):
		return "", fmt.Errorf("%s: List returned an object with the namespace %q", m.kind, i.namespace)
	case m.namespaced:
		return m.prefix + i.namespace + "/" + i.name, nil
	}
	return m.prefix + i.name, nil
}

// value is what the log holds of an object: with the metadata of what it was, where the source has none.
func (m *mirror) value(key string, object, was []byte) ([]byte, error) {
	content, err := jsonobject.Unmarshal(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.kind, err)
	}
	content["apiVersion"], content["kind"] = m.apiVersion, m.kind
	meta, _ := content["metadata"].(map[string]any)
	if meta == nil {
		return nil, fmt.Errorf("%s: an object has no metadata", m.kind)
	}
	delete(meta, "resourceVersion")
	known := map[string]any{"uid": uuid.NewSHA1(uuid.NameSpaceURL, []byte(key)).String(), "generation": int64(1),
		"creationTimestamp": m.clock.Now().UTC().Format(time.RFC3339)}
	if was != nil {
		before, err := jsonobject.Unmarshal(was)
		if err != nil {
			return nil, err
		}
		known, _ = before["metadata"].(map[string]any)
	}
	for name, v := range known {
		if meta[name] == nil {
			meta[name] = v
		}
	}
	out, err := jsonobject.Marshal(content)
	return append(out, '\n'), err
}

// Commit is part of store.DB. What is written goes to the source first, if the source still has what it builds on. The
// source takes one object at a time, so that no two are written as one.
func (m *mirror) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if !slices.ContainsFunc(t.Then, func(o kv.Op) bool { return strings.HasPrefix(o.Key, m.prefix) }) {
		return m.DB.Commit(ctx, t) // the store's own bookkeeping
	}
	if len(t.Then) > 1 {
		return kv.Committed{}, fmt.Errorf("%s: its functions write one object at a time, not %d as one", m.kind, len(t.Then))
	}
	release, err := m.hold(ctx)
	if err != nil {
		return kv.Committed{}, err
	}
	defer release()
	if err := m.ask(ctx); err != nil {
		return kv.Committed{}, err
	}
	op := t.Then[0]
	t.Then = nil
	if done, err := m.DB.Commit(ctx, t); err != nil || !done.Held {
		return done, err
	}
	var was []byte
	if _, err := m.DB.Range(ctx, kv.Range{Key: op.Key}, func(k kv.KeyValue) bool { was = k.Value; return false }); err != nil {
		return kv.Committed{}, err
	}
	if op.Delete {
		if err := m.source.remove(ctx, was); err != nil {
			return kv.Committed{}, err
		}
	} else if op.Value, err = m.save(ctx, op, was); err != nil {
		return kv.Committed{}, err
	}
	t.Then, t.If = []kv.Op{op}, nil
	return m.DB.Commit(context.WithoutCancel(ctx), t) // the source has it
}

// save gives an object to the source and returns what the log is to hold of it.
func (m *mirror) save(ctx context.Context, op kv.Op, was []byte) ([]byte, error) {
	held, err := m.source.save(ctx, op.Value, was)
	if err != nil {
		return nil, err
	}
	return m.value(op.Key, held, op.Value)
}

// run has the log follow the source without being asked, until ctx ends.
func (m *mirror) run(ctx context.Context, log *slog.Logger) {
	for {
		var poll <-chan time.Time
		maxAge := m.source.maxAge
		if m.source.watch == nil {
			poll = m.clock.After(m.source.poll)
		}
		select {
		case <-m.changed:
			maxAge = 0
		case <-poll:
		case <-ctx.Done():
			return
		}
		if err := m.sync(ctx, maxAge); err != nil && ctx.Err() == nil {
			log.Warn("the objects cannot be listed", "kind", m.kind, "error", err)
		}
	}
}

// watch has the source tell of changes until ctx ends. It may do so at any time, also while it is asked.
func (m *mirror) watch(ctx context.Context, log *slog.Logger) {
	changed := func() {
		select {
		case m.changed <- struct{}{}:
		default: // run knows
		}
	}
	for m.source.watch != nil && ctx.Err() == nil {
		if err := m.source.watch(ctx, changed); err != nil && ctx.Err() == nil {
			log.Warn("the objects cannot be watched", "kind", m.kind, "error", err)
		}
		select {
		case <-m.clock.After(m.source.poll):
			changed() // something may have been missed
		case <-ctx.Done():
		}
	}
}

// firstRevision is where the revisions of a log in memory begin: after those of any earlier process, so that clients of
// that one are told to list anew.
func firstRevision(c clock.PassiveClock) int64 { return c.Now().UnixMicro() }

// newMirror makes the log of a kind.
func newMirror(k *kind, prefix string, c clock.WithDelayedExecution) *mirror {
	spec := &k.definition.Spec
	return &mirror{
		DB: memory.NewAt(c, firstRevision(c)), source: k.source, prefix: prefix + spec.Group + "/" + spec.Names.Plural + "/",
		apiVersion: metav1.GroupVersion{Group: spec.Group, Version: spec.Versions[0].Name}.String(), kind: spec.Names.Kind,
		namespaced: spec.Scope == "Namespaced", clock: c, lock: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}
