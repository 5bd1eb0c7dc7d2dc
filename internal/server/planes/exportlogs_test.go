package planes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// offerTo has the provider's export be for some planes.
func (g *ground) offerTo(t *testing.T, consumers string) {
	t.Helper()
	g.must(t, "provider", "PATCH", exportsPath+"/widgets?fieldManager=t&force=true", `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},
		"spec":{"resources":[{"group":"example.com","resource":"widgets"}],"consumers":`+consumers+`}}`, nil)
}

// saysOf waits until a binding is not in force for a reason, and returns the message.
func (g *ground) saysOf(t *testing.T, plane, reason string) (message string) {
	t.Helper()
	eventually(t, "the binding of "+plane+" does not say "+reason, func() (is bool) {
		var why string
		why, message = g.becomes(t, plane, exports.Bound, metav1.ConditionFalse)
		return why == reason
	})
	return message
}

// staysIn waits until a plane has not moved, and returns why.
func (g *ground) staysIn(t *testing.T, plane, class string) (why string) {
	t.Helper()
	p := g.await(t, plane, func(p *Plane) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stored)
		return c != nil && c.Reason == "MoveFailed" && c.ObservedGeneration == p.Generation
	})
	if p.Status.storageClass() != class {
		t.Errorf("%s lies in %q", plane, p.Status.storageClass())
	}
	return meta.FindStatusCondition(p.Status.Conditions, stored).Message
}

// inForce returns the consumers of all bindings in force, by logs.
func (l *logs) inForce(t *testing.T, provider types.UID) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, db := range map[string]store.DB{"": l.root, "a": l.a, "b": l.b} {
		all, err := exports.InForce(t.Context(), db, provider)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			out[name] = append(out[name], b.Plane)
		}
	}
	return out
}

// A binding is in force only within one log. Elsewhere it says so, to whom the export is for; others learn nothing. Once both planes lie in the same
// log it comes into force, and then neither of them moves away. A server that starts anew finds all of that, and what belongs to
// other servers in a storage class stays.
func TestExportLogs(t *testing.T) {
	t.Parallel()
	l, cfg := newLogs(t), settings(t.TempDir())
	const foreign = "/kanzen/exports/8e0f0d3c-0000-4000-8000-000000000001/widgets/8e0f0d3c-0000-4000-8000-000000000002"
	if _, err := l.a.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: foreign, Value: []byte(`{"plane":"alice","binding":"widgets"}`)}}}); err != nil {
		t.Fatal(err)
	}
	g := startWith(t, cfg, l.given(nil))
	provider := g.create(t, "provider", PlaneSpec{StorageClass: "a"})
	g.create(t, "alice", PlaneSpec{})
	g.create(t, "bob", PlaneSpec{StorageClass: "b"})
	g.create(t, "carol", PlaneSpec{StorageClass: "b"})
	g.export(t, `{"planes":["alice","bob"]}`)
	for _, name := range []string{"alice", "bob", "carol"} {
		g.bind(t, name, "")
	}
	for name, place := range map[string]string{"alice": "the log of the root", "bob": `the storage class "b"`} {
		want := `the export provider/widgets lies in the storage class "a", and this plane in ` + place + `: a binding is in force only within one log`
		if message := g.saysOf(t, name, "AnotherLog"); message != want {
			t.Error(message)
		}
		g.becomes(t, name, exports.ConsumerAllowed, metav1.ConditionTrue)
	}
	if message := g.saysOf(t, "carol", "NoExport"); message != "there is no export provider/widgets for this plane" {
		t.Error(message)
	}
	g.offerTo(t, `{"all":true}`)
	g.saysOf(t, "carol", "AnotherLog")
	g.fails(t, 404, `planes.planes.kanzen.io \"alice\" not found`, "provider", "GET", aliceOfWidgets+widgetsPath, "")

	for _, name := range []string{"alice", "bob"} {
		g.lie(t, name, "a")
		g.becomes(t, name, exports.Bound, metav1.ConditionTrue)
		g.must(t, name, "POST", widgetsPath, widget("w", 1), nil)
	}
	if got := g.lists(t, allWidgets); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	g.wantClass(t, "alice", "b")
	if why := g.staysIn(t, "alice", "a"); !strings.Contains(why, `it has bound the export provider/widgets; planes with such bindings lie in one log, and stay there`) {
		t.Error(why)
	}
	g.wantClass(t, "provider", "")
	if why := g.staysIn(t, "provider", "a"); !strings.Contains(why, `the plane alice has bound its export widgets, and 1 more bindings`) {
		t.Error(why)
	}
	// What waits to move gets no new bindings.
	g.must(t, "bob", "DELETE", bindingsPath+"/widgets", "", nil)
	eventually(t, "the binding of bob stays", func() bool {
		code, _ := g.ask(t, "bob", "bob", "GET", bindingsPath+"/widgets", "")
		return code == http.StatusNotFound
	})
	g.bind(t, "bob", "")
	if message := g.saysOf(t, "bob", "Moving"); message != `the plane provider lies in the storage class "a" and is to move to the log of the root; the binding waits until it has` {
		t.Error(message)
	}
	g.lie(t, "provider", "a") // it does not any more
	g.lie(t, "alice", "a")
	g.becomes(t, "bob", exports.Bound, metav1.ConditionTrue)

	g.stop()
	g = startWith(t, cfg, l.given(nil))
	eventually(t, "a binding is not in force after a restart", func() bool {
		code, _ := g.ask(t, "provider", "provider", "GET", aliceOfWidgets+widgetsPath+"/w", "")
		return code == http.StatusOK
	})
	g.delete(t, "alice", nil)
	eventually(t, "what is gone is in force", func() bool {
		got := l.inForce(t, provider.UID)
		return len(got) == 1 && slices.Equal(got["a"], []string{"bob"})
	})
	g.delete(t, "provider", nil)
	g.saysOf(t, "bob", "NoExport")
	eventually(t, "what is gone is in force", func() bool { return len(l.inForce(t, provider.UID)) == 0 })
	if a, err := l.a.Range(t.Context(), kv.Range{Key: foreign, CountOnly: true}, nil); err != nil || a.Count != 1 {
		t.Errorf("a record of another server is gone: %v", err)
	}
}

// Planes with bindings between them move one after the other while these are not in force. All objects stay.
func TestExportMovesTogether(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := startWith(t, settings(t.TempDir()), l.given(nil))
	g.class = "a"
	g.have(t, "provider", "alice")
	g.export(t, `{"all":true}`)
	g.bind(t, "alice", "")
	g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	g.must(t, "alice", "POST", widgetsPath, widget("w", 1), nil)
	informer := g.inform(t)
	eventually(t, "the informer does not have it", func() bool { return len(held(informer)) == 1 })
	for _, class := range []string{"b", "", "a"} {
		g.offerTo(t, `{"all":false}`)
		g.saysOf(t, "alice", "NoExport")
		eventually(t, "the informer has what is not bound", func() bool { return len(held(informer)) == 0 })
		g.lie(t, "provider", class)
		g.must(t, "alice", "GET", widgetsPath+"/w", "", nil)
		g.offerTo(t, `{"all":true}`)
		g.saysOf(t, "alice", "AnotherLog")
		g.lie(t, "alice", class)
		g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
		g.must(t, "alice", "GET", widgetsPath+"/w", "", nil)
		eventually(t, "the informer does not have it in the new log", func() bool { return len(held(informer)) == 1 })
		if got := g.lists(t, allWidgets); len(got) != 1 || got["alice/default/w"].Spec.Size != 1 {
			t.Errorf("%+v", got)
		}
	}
	g.must(t, "alice", "PATCH", widgetsPath+"/w?fieldManager=t&force=true", widget("w", 2), nil)
	eventually(t, "a change is not seen", func() bool { return g.lists(t, allWidgets)["alice/default/w"].Spec.Size == 2 })
}

// TestExportMoveRace binds an export while one of the planes is to move: either the binding comes into force and the plane stays, or it moves and the
// binding is not in force. Never is one in force in a log in which not both of them lie.
func TestExportMoveRace(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprint("servers ", servers), func(t *testing.T) {
			t.Parallel()
			l := newLogs(t)
			if servers > 1 {
				l.race(t, severalOn(t, l, servers).all[0], rounds)
			} else {
				l.race(t, startWith(t, settings(t.TempDir()), l.given(nil)), rounds)
			}
		})
	}
}

// race has a plane bind an export so often while one of the two is to move.
func (l *logs) race(t *testing.T, g *ground, rounds int) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	provider, alice := g.create(t, "provider", PlaneSpec{}), g.create(t, "alice", PlaneSpec{})
	g.export(t, `{"all":true}`)
	classes, lies := []string{"", "a", "b"}, ""
	bound, moved := 0, 0
	for n := range rounds {
		name := []string{"provider", "alice"}[n%2]
		to := classes[(slices.Index(classes, lies)+1+r.IntN(2))%3]
		do := []func(){func() { g.wantClass(t, name, to) }, func() { g.bind(t, "alice", "") }}
		if r.IntN(2) == 0 {
			slices.Reverse(do)
		}
		do[0]()
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		do[1]()
		there := l.settled(t, g, name, to, provider.UID, alice.UID)
		if there {
			moved++
			g.saysOf(t, "alice", "AnotherLog")
		} else {
			bound++
		}
		g.must(t, "alice", "DELETE", bindingsPath+"/widgets", "", nil)
		eventually(t, "the binding stays", func() bool {
			code, _ := g.ask(t, "alice", "alice", "GET", bindingsPath+"/widgets", "")
			return code == http.StatusNotFound
		})
		// Both lie in one log again.
		lies = to
		for _, one := range []string{"provider", "alice"} {
			g.lie(t, one, to)
		}
		if got := l.inForce(t, provider.UID); len(got) > 0 {
			t.Fatalf("in force without a binding: %v", got)
		}
	}
	t.Logf("%d bindings came into force, %d planes moved", bound, moved)
}

// settled waits until a plane has moved, or its binding is in force and it has not, and looks at each moment that what is in force lies in one log.
func (l *logs) settled(t *testing.T, g *ground, name, to string, provider, alice types.UID) (moved bool) {
	t.Helper()
	eventually(t, "neither has "+name+" moved, nor is its binding in force", func() bool {
		// Of what is in force afterwards both planes lie there before and after.
		where := func() (out [2]string) {
			for n, uid := range []types.UID{provider, alice} {
				s, err := g.storageOf(t.Context(), uid)
				if err != nil {
					t.Fatal(err)
				}
				out[n] = s.class()
			}
			return out
		}
		before := where()
		force := l.inForce(t, provider)
		after := where()
		for class := range force {
			if before == after && (after[0] != class || after[1] != class) {
				t.Fatalf("in force in %q, and the planes lie in %q", class, after)
			}
		}
		if after[0] != after[1] {
			moved = true
			return len(force) == 0
		}
		var p Plane
		if err := g.root.Do(t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, &p); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(p.Status.Conditions, stored)
		return len(force) > 0 && c != nil && c.Reason == "MoveFailed"
	})
	return moved
}

// late is a log in which the first binding that comes into force waits for a moment.
type late struct {
	store.DB
	once          sync.Once
	reached, goOn chan struct{}
}

// Commit is part of store.DB.
func (l *late) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if slices.ContainsFunc(t.Then, func(o kv.Op) bool { return !o.Delete && strings.HasPrefix(o.Key, "/kanzen/exports/") }) {
		l.once.Do(func() {
			close(l.reached)
			<-l.goOn
		})
	}
	return l.DB.Commit(ctx, t)
}

// A binding that was about to come into force when one of its planes began to move does not, however late it is.
func TestExportMoveLate(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "a"} {
		for _, name := range []string{"provider", "alice"} {
			t.Run(fmt.Sprintf("%s from x%s", name, from), func(t *testing.T) {
				l := newLogs(t)
				slow := &late{reached: make(chan struct{}), goOn: make(chan struct{})}
				g := startWith(t, settings(t.TempDir()), l.given(func(of string, db store.DB) store.DB {
					if of != from {
						return db
					}
					slow.DB = db
					return slow
				}))
				g.class = from
				g.have(t, "provider", "alice")
				g.export(t, `{"all":true}`)
				g.bind(t, "alice", "")
				<-slow.reached
				g.lie(t, name, "b")
				close(slow.goOn)
				g.saysOf(t, "alice", "AnotherLog")
				if got := l.inForce(t, g.find("provider").uid); len(got) > 0 {
					t.Errorf("in force: %v", got)
				}
			})
		}
	}
}

// hanging is a log that can be away: nothing of it is answered until it is back.
type hanging struct {
	store.DB
	mu   sync.Mutex
	back chan struct{} // closed when it is back; nil: it is there; guarded by mu
}

func (h *hanging) leave() (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back = make(chan struct{})
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.back)
		h.back = nil
	})
}

func (h *hanging) wait(ctx context.Context) error {
	h.mu.Lock()
	back := h.back
	h.mu.Unlock()
	if back == nil {
		return nil
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ping is part of store.DB.
func (h *hanging) Ping(ctx context.Context) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.DB.Ping(ctx)
}

// Head is part of store.DB.
func (h *hanging) Head(ctx context.Context) (int64, error) {
	if err := h.wait(ctx); err != nil {
		return 0, err
	}
	return h.DB.Head(ctx)
}

// Commit is part of store.DB.
func (h *hanging) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	if err := h.wait(ctx); err != nil {
		return kv.Committed{}, err
	}
	return h.DB.Commit(ctx, t)
}

// Range is part of store.DB.
func (h *hanging) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if err := h.wait(ctx); err != nil {
		return kv.Answer{}, err
	}
	return h.DB.Range(ctx, r, yield)
}

// While a storage class does not answer, bindings in all other logs come into force and go as before, also from the start of a server on. Those in
// the class go on when it is back.
func TestExportClassAway(t *testing.T) {
	t.Parallel()
	l, cfg := newLogs(t), settings(t.TempDir())
	var a *hanging
	around := func(name string, db store.DB) store.DB {
		if name != "a" {
			return db
		}
		a = &hanging{DB: db}
		return a
	}
	g := startWith(t, cfg, l.given(around))
	g.create(t, "provider", PlaneSpec{StorageClass: "b"})
	g.create(t, "alice", PlaneSpec{StorageClass: "b"})
	for name, class := range map[string]string{"far": "a", "near": "a"} {
		g.create(t, name, PlaneSpec{StorageClass: class})
	}
	g.export(t, `{"all":true}`)
	g.must(t, "far", "POST", definitionsPath, widgets(""), nil)
	g.must(t, "far", "POST", exportsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},"spec":{"resources":[{"group":"example.com","resource":"widgets"}],"consumers":{"all":true}}}`, nil)
	ofFar := func(plane string) {
		g.must(t, plane, "POST", bindingsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Binding","metadata":{"name":"widgets"},"spec":{"export":{"plane":"far","name":"widgets"}}}`, nil)
	}
	ofFar("near")
	g.becomes(t, "near", exports.Bound, metav1.ConditionTrue)
	g.create(t, "other", PlaneSpec{StorageClass: "b"})
	ofFar("other")
	g.saysOf(t, "other", "AnotherLog")
	for _, restarts := range []bool{false, true} {
		back := a.leave()
		if restarts {
			g.stop()
			g = startWith(t, cfg, l.given(func(name string, db store.DB) store.DB {
				db = around(name, db)
				if name == "a" {
					back = a.leave()
				}
				return db
			}))
		}
		g.bind(t, "alice", "")
		g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
		g.must(t, "alice", "POST", widgetsPath, widget("w", 1), nil)
		if got := g.lists(t, allWidgets); len(got) != 1 {
			t.Errorf("%+v", got)
		}
		if reason, _ := g.becomes(t, "other", exports.Bound, metav1.ConditionFalse); reason != "AnotherLog" {
			t.Errorf("what is offered in a storage class that is away is not known: %s", reason)
		}
		g.must(t, "alice", "DELETE", bindingsPath+"/widgets", "", nil)
		eventually(t, "the binding stays", func() bool {
			code, _ := g.ask(t, "alice", "alice", "GET", bindingsPath+"/widgets", "")
			return code == http.StatusNotFound
		})
		back()
		eventually(t, "the planes of the class do not come back", func() bool {
			code, _ := g.ask(t, "near", "near", "GET", widgetsPath, "")
			return code == http.StatusOK
		})
		object := fmt.Sprintf("w%v", restarts)
		g.must(t, "near", "POST", widgetsPath, widget(object, 1), nil)
		eventually(t, "the provider in the class sees nothing", func() bool {
			code, answer := g.ask(t, "far", "far", "GET", allWidgets, "")
			return code == http.StatusOK && strings.Contains(answer, object)
		})
	}
}

// A plane that is imported into a storage class is bound there, and not before it has moved there.
func TestExportImported(t *testing.T) {
	t.Parallel()
	l := newLogs(t)
	g := startWith(t, settings(t.TempDir()), l.given(nil))
	g.class = "a"
	g.have(t, "provider", "alice")
	g.export(t, `{"all":true}`)
	g.bind(t, "alice", "")
	g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	g.must(t, "alice", "POST", widgetsPath, widget("w", 1), nil)
	file := g.saved(t, "alice")
	g.delete(t, "alice", nil)
	eventually(t, "the plane stays", func() bool { return g.find("alice") == nil })
	delete(g.certs, "alice")
	if err := g.tryCreate(t, "alice", PlaneSpec{StorageClass: "a", Imported: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.client().Import(t.Context(), "alice", sent(t, file, kinds(nil), nil)); err != nil {
		t.Fatal(err)
	}
	g.lie(t, "alice", "a")
	eventually(t, "the binding is not in force", func() bool { return slices.Equal(l.inForce(t, g.find("provider").uid)["a"], []string{"alice"}) })
	g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	if got := g.lists(t, allWidgets); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
