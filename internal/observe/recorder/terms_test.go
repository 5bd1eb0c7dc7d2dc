package recorder

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestRequestTerms chooses requests by when they arrived and how long they took.
func TestRequestTerms(t *testing.T) {
	r, clk := newTest(1 << 20)
	create := func(name string, took time.Duration) {
		serve(t, r, clk, "POST", "/api/v1/namespaces/n/configmaps?x="+name, name, 201, func(context.Context) { clk.Step(took) })
	}
	create("first", time.Second)
	clk.Step(time.Hour)
	create("long", 10*time.Minute)
	create("last", 0)
	requests := r.requests(Deps{})
	for selector, want := range map[string]string{
		"since=24h": "last long first", "since=5m": "last", "since=15m": "last long", "until=5m": "long first", "since=15m,until=5m": "long", "slower=1s": "long first", "slower=1m,since=15m": "long",
		"since=2026-01-02T03:04:05Z,until=2026-01-02T03:04:06Z": "first", "since=2026-01-02T05:00:00+01:00": "last long", "since!=15m": "first", "until=2h": "",
	} {
		chosen, err := fields.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		_, terms, err := requests.Select(chosen)
		if err != nil {
			t.Fatal(selector, err)
		}
		all, err := requests.List(t.Context(), engine.Page{Selector: chosen})
		if err != nil {
			t.Fatal(selector, err)
		}
		var names []string
		for obj := range all {
			if !slices.ContainsFunc(terms, func(holds func(engine.Object) bool) bool { return !holds(obj) }) {
				names = append(names, strings.TrimSuffix(obj.(*v1alpha1.Request).User, "/1.0"))
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", selector, got, want)
		}
	}
	for _, selector := range []string{"since=yesterday", "until=2026-01-02", "slower=1", "since="} {
		chosen, err := fields.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := requests.Select(chosen); err == nil {
			t.Errorf("%s is taken", selector)
		}
	}
}
