package owners

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file keeps what a server knows of the log: by reading all of it, by a watch, and by what transactions that did not hold have read.

// weight orders servers for a plane.
func weight(server string, plane types.UID) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, server) // never fails
	_, _ = io.WriteString(h, string(plane))
	return h.Sum64()
}

// both are the prefixes of which everything is known.
var both = [...]string{ownersPrefix, serversPrefix}

// list reads everything, and returns the revision of which it is.
func (o *Owners) list(ctx context.Context) (rev int64, err error) {
	there := map[string]bool{}
	for _, prefix := range both {
		a, err := o.DB.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix), Rev: rev}, func(k kv.KeyValue) bool {
			there[string(k.Key)] = true
			o.learn(&kv.Event{KeyValue: k})
			return true
		})
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			rev = a.Rev
		}
	}
	o.mu.RLock()
	var gone []string
	for uid := range o.planes {
		if key := ownersPrefix + string(uid); !there[key] {
			gone = append(gone, key)
		}
	}
	for id := range o.servers {
		if key := serversPrefix + id; !there[key] {
			gone = append(gone, key)
		}
	}
	o.mu.RUnlock()
	for _, key := range gone {
		o.learn(&kv.Event{KeyValue: kv.KeyValue{Key: []byte(key), ModRevision: rev}, Deleted: true})
	}
	return rev, nil
}

// follow learns of all changes until ctx ends.
func (o *Owners) follow(ctx context.Context) {
	for ctx.Err() == nil {
		rev, err := o.list(ctx)
		if err == nil {
			err = o.watch(ctx, rev)
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, kv.ErrCompacted) {
			o.Log.Warn("could not follow which servers have which planes, trying again", "error", err)
		}
		select {
		case <-o.Clock.After(pause):
		case <-ctx.Done():
		}
	}
}

// watch learns of changes after a revision, until one of the watches breaks off.
func (o *Owners) watch(ctx context.Context, rev int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(both))
	for _, prefix := range both {
		go func() {
			ended <- o.DB.Watch(ctx, kv.Watch{Key: prefix, Prefix: true, From: rev + 1}, func(events []kv.Event, _ int64) error {
				for n := range events {
					o.learn(&events[n])
				}
				return nil
			})
			cancel()
		}()
	}
	err := <-ended
	for range len(both) - 1 {
		<-ended
	}
	return err
}

// learn takes up what a key is, or was: what is known of a later revision stays.
func (o *Owners) learn(e *kv.Event) {
	if id, ok := strings.CutPrefix(string(e.Key), serversPrefix); ok {
		o.learnServer(id, e)
		return
	}
	plane := types.UID(strings.TrimPrefix(string(e.Key), ownersPrefix))
	now := record{server: string(e.Value), rev: e.ModRevision, seen: e.ModRevision}
	if e.Deleted {
		now.server, now.rev = "", 0
	}
	var c *Change
	o.mu.Lock()
	was := o.planes[plane]
	switch {
	case e.ModRevision < was.seen:
		o.mu.Unlock()
		return
	case e.Deleted: // nothing older can come after it
		delete(o.planes, plane)
	default:
		c = o.take(plane, now)
	}
	o.mu.Unlock()
	o.tell(c)
	if was.server != now.server || was.rev == 0 != (now.rev == 0) {
		o.Changed(plane)
	}
}

// learnServer takes up whether a server runs.
func (o *Owners) learnServer(id string, e *kv.Event) {
	if id == o.self.id() {
		return // it knows best
	}
	s := new(Server)
	if !e.Deleted {
		if err := json.Unmarshal(e.Value, s); err != nil || s.id() != id {
			o.Log.Warn("the key of a server is damaged", "server", id, "error", err)
			return
		}
	}
	o.mu.Lock()
	was := o.servers[id]
	if was != nil && e.ModRevision < was.seen {
		o.mu.Unlock()
		return
	}
	came, fewer := was == nil && !e.Deleted, was != nil && e.Deleted
	switch {
	case e.Deleted:
		delete(o.servers, id)
		o.went(id, was)
	case came:
		was = o.peer(s)
		o.servers[id] = was
	}
	if !e.Deleted {
		fewer = s.Leaving && !was.leaving
		was.leaving, was.seen, was.heard = s.Leaving, e.ModRevision, o.Clock.Now()
	}
	var left []types.UID // planes that nobody has, or that another is to take now
	for uid, r := range o.planes {
		if fewer && o.servers[r.server] == nil {
			left = append(left, uid)
		}
	}
	o.mu.Unlock()
	switch {
	case came:
		o.Joined()
	case fewer && e.Deleted:
		was.close()
	}
	for _, uid := range left {
		o.Changed(uid)
	}
}
