package scope

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSets compares the operations with what they say of every object of a small world.
func TestSets(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	names := func() Names {
		n := Names{All: r.IntN(4) == 0}
		for k := range 3 {
			if r.IntN(2) == 0 {
				if n.Some == nil {
					n.Some = map[string]bool{}
				}
				n.Some[fmt.Sprint("n", k)] = true
			}
		}
		return n
	}
	set := func() Set {
		s := Set{In: map[string]Names{}}
		if r.IntN(3) == 0 {
			s.Everywhere = names()
		}
		for k := range 3 {
			if r.IntN(2) == 0 {
				s.In[fmt.Sprint("ns", k)] = names()
			}
		}
		return s
	}
	for range 3000 {
		a, b := set(), set()
		both, common, within, differing := a.With(b), a.And(b), a.Within([]string{"ns0", "ns2"}), a.Differing(b)
		same := true
		for ns := range 3 {
			for k := range 3 {
				ns, name := fmt.Sprint("ns", ns), fmt.Sprint("n", k)
				inA, inB := a.Has(ns, name), b.Has(ns, name)
				same = same && inA == inB
				if both.Has(ns, name) != (inA || inB) || common.Has(ns, name) != (inA && inB) || within.Has(ns, name) != (inA && ns != "ns1") || a.Of(ns).Has(name) != inA ||
					inA != inB && !differing.Has(ns, name) {
					t.Fatalf("seed %d: %s/%s of %v and %v: %v %v %v", seed, ns, name, a, b, both, within, differing)
				}
			}
		}
		if a.Equal(b) && !same || !a.Equal(a.With(Set{})) {
			t.Fatalf("seed %d: %v equals %v", seed, a, b)
		}
	}
}
