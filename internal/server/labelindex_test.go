package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// TestListsByLabelIndex lists objects that change, by random selectors of labels, until there are indexes and after that: every list has what
// matches, in order, however it is found.
func TestListsByLabelIndex(t *testing.T) {
	alone(t, testing.Short())
	seed := randomSeed()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := start(t)
	const objects = 1500
	namespace := func(n int) string { return []string{"default", "kube-system", "kube-public"}[n%3] }
	random := func() map[string]string {
		set := map[string]string{}
		for _, key := range []string{"app", "tier", "example.com/team"} {
			if r.IntN(3) > 0 {
				set[key] = []string{"", "a", "b", "c"}[r.IntN(4)]
			}
		}
		return set
	}
	have := map[string]labels.Set{}
	view := storeLabelled(t, s, objects, namespace, func(n int) map[string]string {
		set := random()
		have[fmt.Sprintf("%s/c%d", namespace(n), n)] = set
		return set
	})
	list := func(path, selector string, limit int) []string {
		t.Helper()
		var keys []string
		q := url.Values{"labelSelector": {selector}}
		if limit > 0 {
			q.Set("limit", fmt.Sprint(limit))
		}
		for {
			var list struct {
				Metadata struct{ Continue string }
				Items    []struct {
					Metadata struct{ Namespace, Name string }
				}
			}
			if err := json.Unmarshal(do(t, s, "GET", path+"?"+q.Encode(), "", "", nil, 200), &list); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				if strings.HasPrefix(o.Metadata.Name, "c") { // others are made by controllers
					keys = append(keys, o.Metadata.Namespace+"/"+o.Metadata.Name)
				}
			}
			if list.Metadata.Continue == "" {
				return keys
			}
			q.Set("continue", list.Metadata.Continue)
		}
	}
	change := func() {
		n := r.IntN(objects)
		ns, name := namespace(n), fmt.Sprintf("c%d", n)
		path, key, set := "/api/v1/namespaces/"+ns+"/configmaps", ns+"/"+name, random()
		body := fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":%s}}`, name, marshal(t, set))
		switch _, there := have[key]; {
		case !there:
			do(t, s, "POST", path, "application/json", "", body, 201)
		case r.IntN(3) == 0:
			do(t, s, "DELETE", path+"/"+name, "", "", nil, 200)
			delete(have, key)
			return
		default:
			do(t, s, "PUT", path+"/"+name, "application/json", "", body, 200)
		}
		have[key] = set
	}
	ask := func() {
		t.Helper()
		terms := []string{"app=a", "app=", "app==b", "app in (a,b,a)", "app in (,c)", "tier=c", "tier notin (a)", "tier in (b,none)", "example.com/team=b", "!tier", "tier", "app!=a", "tier=none"}
		var chosen []string
		for range 1 + r.IntN(3) {
			chosen = append(chosen, terms[r.IntN(len(terms))])
		}
		text := strings.Join(chosen, ",")
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		path, within := "/api/v1/configmaps", ""
		if r.IntN(3) == 0 {
			within = namespace(r.IntN(3)) + "/"
			path = "/api/v1/namespaces/" + within + "configmaps"
		}
		var want []string
		for _, key := range slices.Sorted(maps.Keys(have)) {
			if strings.HasPrefix(key, within) && selector.Matches(have[key]) {
				want = append(want, key)
			}
		}
		if got := list(path, text, []int{0, 0, 1, 7, 500}[r.IntN(5)]*len(want)/20); !slices.Equal(got, want) {
			t.Fatalf("%s %s: %d objects %q\nwant %d: %q", path, text, len(got), got, len(want), want)
		}
	}
	for range 30 {
		change()
		ask()
	}
	indexes := []string{"app", "tier", "example.com/team"}
	for _, key := range indexes {
		by := view.ByLabel(key)
		eventually(t, func() bool {
			list("/api/v1/configmaps", key+"=nobody", 0)
			o, err := view.Ordered(t.Context(), 0, by)
			return o != nil && err == nil
		})
	}
	for range 200 {
		change()
		ask()
	}
	do(t, s, "DELETE", "/api/v1/namespaces/default/configmaps?labelSelector=app%3Da", "", "", nil, 200)
	maps.DeleteFunc(have, func(key string, set labels.Set) bool {
		return strings.HasPrefix(key, "default/") && set["app"] == "a"
	})
	ask()
	if got := list("/api/v1/namespaces/default/configmaps", "app=a", 0); len(got) > 0 {
		t.Errorf("%q are left", got)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
