package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A share holds the items of its value, whether they were written before or
// after the first request for a share.
func TestShare(t *testing.T) { each(t, testShare) }

func testShare(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(nodes)
	r := rand.New(rand.NewPCG(1, 2))
	items := map[string]*Item{}
	step := func(n int) {
		key := fmt.Sprintf("ns%d/o%d", r.IntN(3), r.IntN(20))
		value := fmt.Sprintf("%s|%d", []string{"", "n1", "n2", "n3"}[r.IntN(4)], n)
		switch i := items[key]; {
		case i == nil:
			items[key] = create(t, v, key, value)
		case r.IntN(4) == 0:
			if _, err := v.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			delete(items, key)
		default:
			items[key] = update(t, v, i, value)
		}
	}
	for n := range 300 {
		step(n)
		if n < 40 || n%7 > 0 {
			continue
		}
		fresh(t, s)
		for _, values := range [][]string{{"n1"}, {"n2"}, {"n4"}, {"n1", "n3"}, {"n4", "n2", "n3"}} {
			got, want := []string{}, []string{}
			share, err := v.Share(t.Context(), values...)
			if err != nil {
				t.Fatal(err)
			}
			if err := share.Ascend(t.Context(), Range{Prefix: "ns1/"}, func(i *Item) bool {
				got = append(got, i.Key+" "+string(i.Value()))
				return true
			}); err != nil {
				t.Fatal(err)
			}
			for key, i := range items {
				if strings.HasPrefix(key, "ns1/") && slices.Contains(values, string(i.Value()[:2])) {
					want = append(want, key+" "+string(i.Value()))
				}
			}
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Fatalf("after %d steps the share of %q is\n%v, want\n%v", n+1, values, got, want)
			}
		}
		if n == 200 {
			v.reset()
		}
	}
}
