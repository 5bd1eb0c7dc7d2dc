package pages

import (
	"reflect"
	"slices"
	"testing"
)

// An exact path comes first, then the longest prefix.
func TestFindPage(t *testing.T) {
	table := []Page{{Paths: At("/a/*")}, {Paths: At("/a/b/*", "/a")}, {Paths: At("/a/b")}}
	p := New(table)
	for path, want := range map[string]int{
		"/": -1, "/a": 1, "/ab": -1, "/a/": 0, "/a/c": 0, "/a/b": 2, "/a/b/": 1, "/a/b/c": 1, "/a/bc": 0, "//a": -1, "": -1, "*": -1,
	} {
		got := slices.IndexFunc(table, func(q Page) bool {
			found := p.Find(path)
			return found != nil && reflect.DeepEqual(q.Paths, found.Paths)
		})
		if got != want {
			t.Errorf("%q has page %d, want %d", path, got, want)
		}
	}
}
