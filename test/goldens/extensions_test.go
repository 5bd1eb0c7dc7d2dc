package goldens

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestExtensionsChangeNothing asks a server with all additions to the API, and one without any, what was asked of kube-apiserver: a
// client that does not ask for an addition sees no other answer. Only discovery names the groups of additions.
func TestExtensionsChangeNothing(t *testing.T) {
	t.Parallel()
	s := set{name: "default", every: 24}
	var cases []*Case
	for _, c := range s.cases(t) {
		if c.Base == "misc" || s.asks(c.Base) {
			cases = append(cases, c)
		}
	}
	var mu sync.Mutex
	without := map[string]Expect{}
	runner(t, "--extensions=").run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		without[c.ID] = got
	})
	asked := 0
	runner(t, "--extensions=*").run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		want := without[c.ID]
		want.Object, got.Object = withoutAdditions(want.Object), withoutAdditions(got.Object)
		for part, same := range verdict(want, got) {
			if !same {
				var b bytes.Buffer
				diff(&b, "  ", plain(want), plain(got))
				t.Errorf("%s: %s differs\n  %s %s\n%s", c.ID, part, c.Method, c.Path, b.String())
				return
			}
		}
	})
	if asked < 400 {
		t.Errorf("only %d requests were asked", asked)
	}
}

// withoutAdditions leaves the groups of additions out of a list of groups.
func withoutAdditions(object any) any {
	m, ok := plain(object).(map[string]any)
	if !ok {
		return object
	}
	groups, ok := m["groups"].([]any)
	if !ok {
		return object
	}
	kept := []any{}
	for _, g := range groups {
		if !strings.HasSuffix(fmt.Sprint(mapOf(g)["name"]), ".kanzen.io") {
			kept = append(kept, g)
		}
	}
	m["groups"] = kept
	return m
}
