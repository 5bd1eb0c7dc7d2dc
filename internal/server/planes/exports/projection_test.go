package exports

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/layer"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// fleet is a log with planes, one of which has a base.
type fleet struct{ db store.DB }

func (f fleet) List() []Plane                                 { return nil }
func (f fleet) Find(string) (Plane, bool)                     { return Plane{}, false }
func (f fleet) Known(types.UID) bool                          { return true }
func (f fleet) Stay(context.Context, types.UID) (Stay, error) { return Stay{}, nil }
func (f fleet) Awake(string) bool                             { return false }
func (f fleet) Transport(string, user.Info) http.RoundTripper { return nil }
func (f fleet) Log(_ context.Context, uid types.UID) (store.DB, string, error) {
	prefix := planesPrefix + string(uid) + "/"
	if uid == "u0" {
		return layer.New(f.db, prefix, base{}), prefix, nil
	}
	return f.db, prefix, nil
}

// base has an object of each kind that every plane with it begins with.
type base struct{}

func (base) Len() int         { return 2 }
func (base) Key(n int) string { return []string{"configmaps/a/base", "example.com/widgets/a/base"}[n] }
func (base) Value(int) []byte { return object("base", "yes") }

func object(content, label string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":"x","labels":{"l":%q}},"data":%q}`, label, content)
}

var (
	widgets = GroupResource{"example.com", "widgets"}
	maps_   = GroupResource{"", "configmaps"}
)

func newProjection(db store.DB) *projection {
	p := &projection{DB: db, planes: fleet{db}, records: recordsOf("provider", "e"), open: func(_ context.Context, _ GroupResource, _ string, value []byte) ([]byte, error) {
		return value, nil
	}}
	p.add(widgets, "example.com/widgets/", true)
	p.add(maps_, "configmaps/", true)
	return p
}

// TestProjection writes objects and records at random, and holds what a watch of the projection has told, from each earlier revision
// on, against what a range has.
func TestProjection(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		db := memory.New(clock.RealClock{})
		p := newProjection(db)
		states := map[int64]map[string]string{}
		for range 60 {
			write(t, r, db)
			head, err := db.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			states[head] = ranged(t, p, head)
		}
		last := slices.Max(slices.Collect(maps.Keys(states)))
		for from, state := range states {
			for _, prev := range []bool{false, true} {
				if got := followed(t, p, maps.Clone(state), from, last, prev); !maps.Equal(got, states[last]) {
					t.Fatalf("seed %d, from %d to %d, prev %v: watched %v, ranged %v", seed, from, last, prev, got, states[last])
				}
			}
		}
		_ = db.Close()
	}
}

// write makes one write: to a plane, or to a record.
func write(t *testing.T, r *rand.Rand, db store.DB) {
	uid := fmt.Sprintf("u%d", r.IntN(3))
	txn := kv.Txn{}
	if r.IntN(4) == 0 {
		txn.Then = []kv.Op{recordOp(r, uid)}
	} else {
		db, prefix, _ := fleet{db}.Log(t.Context(), types.UID(uid))
		kind := []string{"configmaps/", "example.com/widgets/", "secrets/"}[r.IntN(3)]
		key := prefix + kind + []string{"a/base", "a/x", "b/x", "a-b/y"}[r.IntN(4)]
		op := kv.Op{Key: key, Value: object(fmt.Sprint(r.IntN(1000)), []string{"yes", "no"}[r.IntN(2)]), Delete: r.IntN(3) == 0}
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{op}}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := db.Commit(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
}

func recordOp(r *rand.Rand, uid string) kv.Op {
	key := recordsOf("provider", "e") + uid
	if r.IntN(8) == 0 {
		key = recordsOf("provider", "other") + uid // of another export
	}
	if r.IntN(3) == 0 {
		return kv.Op{Key: key, Delete: true}
	}
	of := record{Plane: "plane-" + uid, Binding: "b", Resources: []GroupResource{widgets}}
	switch r.IntN(3) {
	case 0:
		of.Claims = []grant{{GroupResource: maps_, Verbs: []string{"list", "watch"}}}
	case 1:
		of.Claims = []grant{{GroupResource: maps_, Verbs: []string{"list", "watch"},
			Selectors: []*metav1.LabelSelector{{MatchLabels: map[string]string{"l": "yes"}}}}}
	}
	value, _ := json.Marshal(of)
	return kv.Op{Key: key, Value: value}
}

// ranged returns all keys of the projection at a revision, read in pages, with their revisions.
func ranged(t *testing.T, p *projection, rev int64) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range p.kinds {
		prefix := viewPrefix + kind.prefix
		for from, more := prefix, true; more; {
			a, err := p.Range(t.Context(), kv.Range{Key: from, End: kv.PrefixEnd(prefix), Rev: rev, Limit: 2}, func(k kv.KeyValue) bool {
				if string(k.Key) < from {
					t.Fatalf("%q comes after %q", k.Key, from)
				}
				out[string(k.Key)] = fmt.Sprint(k.ModRevision, string(k.Value))
				from = kv.After(k.Key)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			more = a.More
		}
	}
	return out
}

// followed changes a state by the events of a watch.
func followed(t *testing.T, p *projection, state map[string]string, from, until int64, prev bool) map[string]string {
	t.Helper()
	if from >= until {
		return state
	}
	at := from
	err := p.Watch(t.Context(), kv.Watch{Key: viewPrefix, Prefix: true, From: from + 1, Until: until, Prev: prev}, func(events []kv.Event, _ int64) error {
		for _, e := range events {
			key := string(e.Key)
			was, had := state[key]
			if e.Revision() < at || e.Revision() <= from {
				t.Fatalf("an event at %d comes after %d", e.Revision(), at)
			}
			at = e.Revision()
			if prev && had != (e.Prev.ModRevision > 0) || prev && had && was != fmt.Sprint(e.Prev.ModRevision, string(e.Prev.Value)) {
				t.Fatalf("the event of %s at %d says that it was %+v, and it was %q", key, at, e.Prev, was)
			}
			if prev && !had && !e.Created() {
				t.Fatalf("the event of %s at %d: it did not exist", key, at)
			}
			if delete(state, key); !e.Deleted {
				state[key] = fmt.Sprint(e.ModRevision, string(e.Value))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// Objects of different planes have different keys, and name their plane whatever they say themselves.
func TestProjectionNamesPlanes(t *testing.T) {
	db := memory.New(clock.RealClock{})
	defer db.Close()
	p := newProjection(db)
	for _, uid := range []string{"u1", "u2"} {
		value, _ := json.Marshal(record{Plane: "plane-" + uid, Resources: []GroupResource{widgets}})
		forged := []byte(`{"metadata":{"name":"x","annotations":{"planes.kanzen.io/plane":"forged"}}}`)
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: p.records + uid, Value: value}, {Key: planesPrefix + uid + "/example.com/widgets/a/x", Value: forged}}}); err != nil {
			t.Fatal(err)
		}
	}
	head, _ := db.Head(t.Context())
	all := ranged(t, p, head)
	for _, uid := range []string{"u1", "u2"} {
		if got := all[viewPrefix+"example.com/widgets/a/plane-"+uid+"/x"]; !strings.Contains(got, `"planes.kanzen.io/plane":"plane-`+uid) || strings.Contains(got, "forged") {
			t.Errorf("%s: %s", uid, got)
		}
	}
	if len(all) != 2 {
		t.Errorf("%v", all)
	}
}
