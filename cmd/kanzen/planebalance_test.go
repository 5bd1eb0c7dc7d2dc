package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func serverWith(name string, loads ...float64) *balanced {
	s := &balanced{name: name, awake: len(loads)}
	for n, load := range loads {
		s.load += load
		s.planes = append(s.planes, balancedPlane{name + strconv.Itoa(n), load})
	}
	return s
}

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []*balanced
		want    []planeMove
	}{
		{"a new server gets half", []*balanced{serverWith("a", 1, 1, 1, 1), serverWith("b")}, []planeMove{{"a0", "a", "b"}, {"a1", "a", "b"}}},
		{"equal ones stay", []*balanced{serverWith("a", 5, 5), serverWith("b", 10)}, nil},
		{"one plane is not moved to and fro", []*balanced{serverWith("a", 100), serverWith("b")}, nil},
		{"the one that fits best", []*balanced{serverWith("a", 100, 45, 1), serverWith("b", 50)}, []planeMove{{"a1", "a", "b"}}},
		{"little is not worth a move", []*balanced{serverWith("a", 50, 2), serverWith("b", 48)}, nil},
		{"nobody has anything", []*balanced{serverWith("a"), serverWith("b")}, nil},
	} {
		if got := balance(c.servers); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	pinned := serverWith("a", 10, 10)
	pinned.planes = nil
	if got := balance([]*balanced{pinned, serverWith("b")}); len(got) > 0 {
		t.Errorf("planes that name their server are moved: %v", got)
	}
}

// Whatever the loads, balancing ends, moves no plane twice, and does not spread the loads more than they were.
func TestBalanceRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	apart := func(servers []*balanced) float64 {
		least, most := servers[0].load, servers[0].load
		for _, s := range servers {
			least, most = min(least, s.load), max(most, s.load)
		}
		return most - least
	}
	for range 500 {
		var servers []*balanced
		planes := 0
		for n := range 2 + r.IntN(4) {
			loads := make([]float64, r.IntN(20))
			for i := range loads {
				loads[i] = 1 + r.ExpFloat64()*50
			}
			planes += len(loads)
			servers = append(servers, serverWith(string(rune('a'+n)), loads...))
		}
		before := apart(servers)
		moves := balance(servers)
		if now := apart(servers); now > before || len(moves) > 0 && now == before && len(servers) == 2 {
			t.Errorf("%d moves: %v apart, before %v", len(moves), now, before)
		}
		seen := map[string]bool{}
		for _, m := range moves {
			if seen[m.plane] || m.from == m.to {
				t.Errorf("%v", moves)
			}
			seen[m.plane] = true
		}
		sum := 0
		for _, s := range servers {
			sum += s.awake
		}
		if sum != planes {
			t.Errorf("%d planes of %d are left", sum, planes)
		}
	}
}
