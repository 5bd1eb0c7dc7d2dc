package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// rewriting is a store with secrets, and a Rewriter of it.
type rewriting struct {
	*Rewriter
	db   *memory.DB
	view *store.View
}

func newRewriting(t *testing.T, providers string) *rewriting {
	t.Helper()
	e, tr := openConfig(t, providers)
	e.Guard = guard.New(slog.New(slog.DiscardHandler), clock.RealClock{}, nil)
	db := memory.New(clock.RealClock{})
	s := store.New(db, store.Options{Prefix: "/registry/"})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); _ = db.Close() })
	return &rewriting{&Rewriter{Encryption: e, Stores: []*store.Store{s}, Clock: clock.RealClock{}, Resource: func(key string) (schema.GroupResource, bool) {
		resource, _, _ := strings.Cut(key, "/")
		return schema.GroupResource{Resource: resource}, resource == "secrets" || resource == "configmaps"
	}}, db, s.View(store.Kind{Prefix: "secrets/", Transformer: tr})}
}

// take changes the configuration.
func (r *rewriting) take(t *testing.T, providers string) {
	t.Helper()
	s, err := r.Encryption.setup([]byte(configOf(providers)))
	if err != nil {
		t.Fatal(err)
	}
	r.Encryption.current.Swap(s).close()
}

func (r *rewriting) put(t *testing.T, key, value string) {
	t.Helper()
	if _, err := r.view.Create(t.Context(), key, store.Write{Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

func (r *rewriting) run(t *testing.T, rewrite bool) *Report {
	t.Helper()
	report, err := r.Run(t.Context(), rewrite, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// usage is how much a key is in use, in short.
func usage(r *Report, provider, key string) string {
	for _, u := range r.Usage {
		if u.Provider == provider && u.Key == key {
			return fmt.Sprintf("values %d, history %d, writes %v, removable %v", u.Values, u.History, u.Writes, u.Removable())
		}
	}
	return "none"
}

// TestRewriteSaysWhatCanBeRemoved follows a key through its life.
func TestRewriteSaysWhatCanBeRemoved(t *testing.T) {
	old, both, only := "{aescbc: "+testKeys("a")+"}, {identity: {}}", "{aesgcm: "+testKeys("b")+"}, {aescbc: "+testKeys("a")+"}, {identity: {}}", "{aesgcm: "+testKeys("b")+"}"
	r := newRewriting(t, old)
	for n := range 50 {
		r.put(t, fmt.Sprint("default/", n), fmt.Sprint("value ", n))
	}
	check := func(what string, rewrite bool, want map[string]string) *Report {
		t.Helper()
		report := r.run(t, rewrite)
		for key, want := range want {
			provider, name, _ := strings.Cut(key, " ")
			if got := usage(report, provider, name); got != want {
				t.Errorf("%s: %s: %s, want %s", what, key, got, want)
			}
		}
		return report
	}
	check("at first", false, map[string]string{"aescbc a": "values 50, history 50, writes true, removable false", "identity ": "values 0, history 0, writes false, removable true"})
	r.take(t, both)
	if got := check("with a new key", false, map[string]string{"aescbc a": "values 50, history 50, writes false, removable false"}); got.Left != 50 {
		t.Errorf("%d are left to rewrite", got.Left)
	}
	if got := check("rewritten", true, map[string]string{"aescbc a": "values 0, history 50, writes false, removable false",
		"aesgcm b": "values 50, history 50, writes true, removable false"}); got.Left != 0 || got.Rewritten != 50 {
		t.Errorf("%d rewritten, %d left", got.Rewritten, got.Left)
	}
	head, err := r.db.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.db.Compact(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	check("compacted", true, map[string]string{"aescbc a": "values 0, history 0, writes false, removable true"})
	r.take(t, only)
	if got := r.run(t, false); got.Unreadable != 0 {
		t.Errorf("what could be removed was needed: %v", got.Problems)
	}
}

// TestRewriteReportsWhatItCannotRead has values of a key that is not configured, damaged ones, and ones of no resource.
func TestRewriteReportsWhatItCannotRead(t *testing.T) {
	r := newRewriting(t, "{aesgcm: "+testKeys("a")+"}, {identity: {}}")
	r.put(t, "default/a", "value")
	stored, err := r.view.Latest(t.Context(), "default/a")
	if err != nil || stored.Err != nil {
		t.Fatal(err, stored.Err)
	}
	s := r.Stores[0]
	var sealed []byte
	if _, err := s.Stored(t.Context(), 0, func(v store.Stored) bool { sealed = v.Bytes; return false }); err != nil {
		t.Fatal(err)
	}
	plain := store.New(r.db, store.Options{Prefix: "/registry/"})
	for key, value := range map[string]string{
		"secrets/default/moved": string(sealed), "secrets/default/other": "k8s:enc:aescbc:v1:gone:xxxxxxxxxxxxxxxx", "secrets/default/kms": "k8s:enc:kms:v2:none:\x00",
		"widgets.example.org/default/x": "k8s:enc:aesgcm:v1:a:xxxx", "leases/x": "plain", "secrets/default/plain": "k8s\x00",
	} {
		prefix, name, _ := strings.Cut(key, "/")
		if _, err := plain.View(store.Kind{Prefix: prefix + "/"}).Create(t.Context(), name, store.Write{Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	report := r.run(t, true)
	got := map[string]string{}
	for _, p := range report.Problems {
		got[p.Key] = p.Reason
	}
	want := map[string]string{
		"/registry/secrets/default/moved": "cipher: message authentication failed", "/registry/secrets/default/other": "no matching prefix found",
		"/registry/secrets/default/kms":           "no matching prefix found",
		"/registry/widgets.example.org/default/x": errNotServed.Error() + " (k8s:enc:aesgcm:v1:a:)",
	}
	if !maps.Equal(got, want) || report.Unreadable != 4 || report.Rewritten != 1 || report.Left != 0 {
		t.Errorf("%+v\nwant %v", report, want)
	}
}

// TestRewriteLosesNothing has writers change, delete and make objects while they are rewritten, again and again.
func TestRewriteLosesNothing(t *testing.T) {
	r := newRewriting(t, "{aescbc: "+testKeys("a")+"}")
	const objects, rewrites = 20, 200
	var rewritten atomic.Int64
	last := make([]int, objects)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			first, second := "a", "b"
			if n%2 == 0 {
				first, second = "b", "a"
			}
			r.take(t, "{aescbc: "+testKeys(first, second)+"}")
			p := &progress{clock: clock.RealClock{}, tell: func(Progress) {}}
			err := r.rewrite(ctx, r.Stores[0], p)
			if head, herr := r.db.Head(ctx); err == nil && herr == nil {
				_ = r.db.Compact(ctx, head) // the history would grow
			}
			if rewritten.Add(p.rewritten.Load()); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for o := range objects {
		writers.Go(func() {
			key := fmt.Sprint("default/", o)
			var item *store.Item
			for n := 0; rewritten.Load() < rewrites && !t.Failed() || item == nil; n++ {
				last[o] = n
				value := []byte(fmt.Sprint(n))
				for {
					var err error
					switch {
					case item == nil:
						item, err = r.view.Create(ctx, key, store.Write{Value: value})
					case n%17 == 16:
						if _, err = r.view.Delete(ctx, item); err == nil {
							item = nil
						}
					default:
						item, err = r.view.Update(ctx, item, store.Write{Value: value})
					}
					var conflict *store.ConflictError
					if !errors.As(err, &conflict) {
						if err != nil {
							t.Error(err)
						}
						break
					}
					// Only the rewriting can have come before: with what this writer has written last.
					if conflict.Current == nil || string(conflict.Current.Value()) != fmt.Sprint(n-1) {
						t.Errorf("%s was to be %d and is %v", key, n-1, conflict.Current)
						return
					}
					item = conflict.Current
				}
			}
		})
	}
	writers.Wait()
	stop()
	running.Wait()
	for o := range objects {
		key := fmt.Sprint("default/", o)
		i, err := r.view.Latest(t.Context(), key)
		if err != nil || i.Err != nil || string(i.Value()) != fmt.Sprint(last[o]) {
			t.Errorf("%s: %v, %v", key, i, err)
		}
	}
}

// TestRewriteGoesOn interrupts a rewriting, and calls it again.
func TestRewriteGoesOn(t *testing.T) {
	r := newRewriting(t, "{aescbc: "+testKeys("a")+"}")
	for n := range 100 {
		r.put(t, fmt.Sprint("default/", n), "value")
	}
	r.take(t, "{aescbc: "+testKeys("b", "a")+"}")
	broken := errors.New("broken")
	r.db.Inject(memory.Fault{Of: memory.Commit, Skip: 30, Err: broken})
	if _, err := r.Run(t.Context(), true, func(Progress) {}); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	report := r.run(t, true)
	if report.Left != 0 || report.Rewritten == 0 || report.Rewritten > 75 {
		t.Errorf("the second call rewrote %d and left %d", report.Rewritten, report.Left)
	}
}
