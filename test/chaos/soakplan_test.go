package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// step is something that happens to a cluster, and is mended again.
type step struct {
	after time.Duration // since the end of the former one
	what  string
	whom  []string
	lasts time.Duration
}

func (s step) String() string {
	return fmt.Sprintf("%s %v for %v", s.what, s.whom, s.lasts.Round(100*time.Millisecond))
}

// What happens.
const (
	kill  = "kill"  // kill -9, and a start
	end   = "end"   // SIGTERM, and a start
	pause = "pause" // SIGSTOP
	cut   = "cut"   // its network is down
	fill  = "fill"  // its disk is full
)

// able is what a machine lets a run do.
type able struct{ cuts, disks bool }

// planSteps is what happens within a time. A seed gives the same steps. Servers that are spared are paused and cut off, and keep their
// process. A part of the cluster is broken at a time, so that what is left has to do the work; now and then it is two members of etcd, so
// that no write is possible.
func planSteps(seed uint64, length time.Duration, spared []string, can able) []step {
	r := rand.New(rand.NewPCG(seed, uint64(len(spared))))
	pace := min(max(length/100, 2*time.Second), 20*time.Second)
	within := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	var out []step
	for spent := time.Duration(0); ; {
		// All numbers are drawn in any case: what a machine lets a run do does not change what comes after it.
		s := step{after: within(pace/2, pace*3/2), lasts: within(time.Second, 12*time.Second)}
		what, kind, number, two := r.IntN(100), r.IntN(100), r.IntN(members), r.IntN(6) == 0
		switch {
		case kind < 45:
			s.whom = []string{fmt.Sprintf("s%d", number)}
		case kind < 85:
			s.whom = []string{fmt.Sprintf("e%d", number)}
		default:
			s.what, s.whom = kill, []string{programs[r.IntN(len(programs))]}
		}
		switch {
		case s.what != "":
		case what < 25:
			s.what, s.lasts = kill, s.lasts/3
		case what < 35:
			s.what, s.lasts = end, s.lasts/6
		case what < 60:
			s.what = pause
		case what < 90:
			s.what = cut
		default:
			s.what, s.whom = fill, []string{s.whom[0][:1] + "2"} // that have a disk of their own
		}
		if two && (s.what == pause || s.what == cut) && s.whom[0][0] == 'e' {
			s.whom = append(s.whom, fmt.Sprintf("e%d", (number+1)%members))
		}
		if s.what != pause && s.what != cut && slices.Contains(spared, s.whom[0]) {
			s.what = pause
		}
		if s.what == cut && !can.cuts || s.what == fill && !can.disks {
			s.what = pause
		}
		if spent += s.after + s.lasts; spent > length {
			return out
		}
		out = append(out, s)
	}
}

// turns are the steps of warming up: the balancer passes each program to each server once, so that servers have had all of them.
func turns(length time.Duration) (out []step) {
	n := time.Duration(len(programs) * members)
	for range members {
		for _, p := range programs {
			out = append(out, step{after: length / (n + 2), what: kill, whom: []string{p}})
		}
	}
	return out
}

// A seed gives the same steps, which spare what is to be spared, and do all there is in the time of a run.
func TestPlanSteps(t *testing.T) {
	all := planSteps(7, time.Hour, []string{"s0"}, able{cuts: true, disks: true})
	if again := planSteps(7, time.Hour, []string{"s0"}, able{cuts: true, disks: true}); fmt.Sprint(all) != fmt.Sprint(again) {
		t.Error("a seed gives other steps the second time")
	}
	if other := planSteps(8, time.Hour, []string{"s0"}, able{cuts: true, disks: true}); fmt.Sprint(all) == fmt.Sprint(other) {
		t.Error("another seed gives the same steps")
	}
	did := map[string]bool{}
	var total time.Duration
	for _, s := range all {
		total += s.after + s.lasts
		if s.whom[0] == "s0" && s.what != pause && s.what != cut {
			t.Errorf("%v, which is to be spared", s)
		}
		did[s.what+" "+s.whom[0][:1]] = true
		did[fmt.Sprint(len(s.whom))] = true
	}
	if total > time.Hour || total < 50*time.Minute {
		t.Errorf("an hour's steps take %v", total)
	}
	for _, what := range []string{"kill s", "kill e", "end s", "end e", "pause s", "pause e", "cut s", "cut e", "fill s", "fill e", "kill k", "1", "2"} {
		if !did[what] {
			t.Errorf("an hour has no %s", what)
		}
	}
	for _, s := range planSteps(7, time.Hour, nil, able{}) {
		if s.what == cut || s.what == fill {
			t.Errorf("%v cannot be done", s)
		}
	}
	if n := len(planSteps(7, 40*time.Second, nil, able{})); n < 2 {
		t.Errorf("forty seconds have %d steps", n)
	}
}
