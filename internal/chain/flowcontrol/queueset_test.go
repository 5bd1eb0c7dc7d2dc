package flowcontrol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kanzen-io/kanzen/internal/request"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testMetrics() *Metrics {
	return NewMetrics(prometheus.NewRegistry(), func() time.Time { return epoch })
}

func testFlow(name string) *flow {
	f := &flow{FlowSchema: &flowcontrolv1.FlowSchema{}}
	f.Name = name
	f.metrics = testMetrics().flow("level", name)
	return f
}

// script drives a queueSet and records what it serves.
type script struct {
	*queueSet
	t      *testing.T
	now    time.Time
	f      *flow
	served []string
	byName map[string]*ticket
}

func newScript(t *testing.T, l limits) *script {
	s := &script{t: t, now: epoch, f: testFlow("f"), byName: map[string]*ticket{}}
	s.queueSet = newQueueSet(l, s.now, func(tk *ticket) { s.served = append(s.served, tk.which) }, func(time.Time) {})
	return s
}

func (s *script) come(name string, hash uint64, e Estimate) outcome {
	tk := &ticket{Estimate: e, flow: s.f, which: name, details: &details{info: &request.Info{Verb: "get"}}}
	s.byName[name] = tk
	return s.arrive(s.now, tk, hash)
}

func (s *script) after(d time.Duration) { s.now = s.now.Add(d) }

func one() Estimate { return Estimate{Initial: 1} }

func TestQueueSetLimits(t *testing.T) {
	s := newScript(t, limits{queues: 1, length: 2, hand: 1, capacity: 2})
	for n, want := range []outcome{started, started, waiting, waiting, queueFull} {
		if got := s.come(fmt.Sprint(n), 0, one()); got != want {
			t.Errorf("request %d: %v, want %v", n, got, want)
		}
	}
	s.after(time.Second)
	if !s.abandon(s.now, s.byName["2"]) || s.abandon(s.now, s.byName["0"]) {
		t.Error("who waits may leave, who is served may not")
	}
	s.finish(s.now, s.byName["0"])
	if want := []string{"0", "1", "3"}; !slices.Equal(s.served, want) {
		t.Errorf("served %v, want %v", s.served, want)
	}
	if s.rejected != 2 || s.timedOut != 1 || s.waiting != 0 || s.seatsInUse != 2 {
		t.Errorf("%+v", s.queueSet)
	}
}

// A request that arrives at a full queue soon after a rejection there is delayed, while there is room for delayed
// requests.
func TestQueueSetHolds(t *testing.T) {
	s := newScript(t, limits{queues: 1, length: 2, hand: 1, capacity: 1})
	next := 0
	come := func(want ...outcome) {
		t.Helper()
		for _, w := range want {
			next++
			if got := s.come(fmt.Sprint(next), 0, one()); got != w {
				t.Errorf("request %d: %v, want %v", next, got, w)
			}
		}
	}
	come(started, waiting, waiting, queueFull, queueStillFull, queueStillFull, queueFull)
	s.unhold()
	come(queueStillFull)
	s.unhold()
	s.after(patience)
	come(queueFull, queueStillFull)
	if s.finish(s.now, s.byName["1"]); !slices.Equal(s.served, []string{"1", "2"}) {
		t.Errorf("served %v", s.served)
	}
	come(waiting)
}

// A flow whose requests take longer than the guess gets no credit for work that it has not been charged for.
func TestQueueSetGivesNoCredit(t *testing.T) {
	s := newScript(t, limits{queues: 2, length: 10, hand: 1, capacity: 2})
	for n := range 4 {
		s.come(fmt.Sprint("long", n), 0, one())
	}
	s.after(19 * time.Millisecond)
	s.come("other", 1, one())
	s.after(time.Millisecond)
	s.finish(s.now, s.byName["long0"])
	s.finish(s.now, s.byName["long1"])
	if want := []string{"long0", "long1", "other", "long2"}; !slices.Equal(s.served, want) {
		t.Errorf("served %v, want %v", s.served, want)
	}
}

func TestQueueSetWithoutQueues(t *testing.T) {
	s := newScript(t, limits{capacity: 2})
	if s.come("wide", 0, Estimate{Initial: 9}) != started {
		t.Error("one that is wider than all seats is served alone")
	}
	if s.come("next", 0, one()) != overLimit {
		t.Error("no seats, no queues")
	}
	s.finish(s.now, s.byName["wide"])
	if s.come("then", 0, one()) != started || s.come("too", 0, one()) != started || s.come("more", 0, one()) != overLimit {
		t.Error("as many as there are seats")
	}
	e := newScript(t, limits{exempt: true})
	for n := range 100 {
		if e.come(fmt.Sprint(n), 0, one()) != started {
			t.Fatal("exempt requests are served")
		}
	}
}

func TestQueueSetLingers(t *testing.T) {
	s := newScript(t, limits{queues: 1, length: 9, hand: 1, capacity: 3})
	s.come("write", 0, Estimate{Initial: 1, Final: 6, Linger: time.Second})
	s.come("read", 0, one())
	if s.byName["write"].Final != 3 || s.byName["write"].Linger != 2*time.Second {
		t.Errorf("the same work on fewer seats: %+v", s.byName["write"].Estimate)
	}
	s.after(time.Millisecond)
	if d := s.finish(s.now, s.byName["write"]); d != 2*time.Second || len(s.served) != 1 {
		t.Errorf("its seats are free after %s, and not before: %v", d, s.served)
	}
	s.after(2 * time.Second)
	s.release(s.now, s.byName["write"])
	if len(s.served) != 2 {
		t.Error("then they are")
	}
}

func TestQueueSetShrinks(t *testing.T) {
	s := newScript(t, limits{queues: 8, length: 9, hand: 1, capacity: 1})
	for n := range 16 {
		s.come(fmt.Sprint(n), uint64(n), one())
	}
	s.configure(s.now, limits{queues: 2, length: 9, hand: 1, capacity: 16})
	if len(s.served) != 16 {
		t.Fatalf("all that waited is served: %v", s.served)
	}
	for _, name := range slices.Clone(s.served) {
		s.finish(s.now, s.byName[name])
	}
	if len(s.all) != 2 || !s.idle() || s.active != 0 || s.seatsInUse != 0 {
		t.Errorf("%d queues, %+v", len(s.all), s.queueSet)
	}
}

func TestDealIsFairAndWithoutRepeats(t *testing.T) {
	rnd, count := rand.New(rand.NewPCG(1, 2)), make([]int, 64)
	for range 10000 {
		cards := deal(nil, rnd.Uint64(), 64, 6)
		slices.Sort(cards)
		if len(slices.Compact(slices.Clone(cards))) != 6 {
			t.Fatalf("%v", cards)
		}
		for _, c := range cards {
			count[c]++
		}
	}
	for c, n := range count {
		if n < 700 || n > 1200 { // 937.5 on average
			t.Errorf("card %d was dealt %d times", c, n)
		}
	}
}

// One flow floods at ten times the capacity, and another sends few requests: in simulated time the small flow is served
// as if it were alone, and no more requests wait than fit into the queues.
func TestFloodIsItsOwnLoss(t *testing.T) {
	const (
		capacity = 10
		service  = 10 * time.Millisecond // 1000 requests a second
		length   = 20 * time.Second
	)
	alone, _ := simulate(t, capacity, service, length, 0)
	beside, flood := simulate(t, capacity, service, length, 10*capacity*int(time.Second/service))
	t.Logf("p99 of the small flow: %s alone, %s beside the flood, of which %d were served and %d refused", alone, beside, flood.served, flood.refused)
	if beside > 2*alone {
		t.Errorf("p99 %s, without the flood %s", beside, alone)
	}
	if flood.most > 8*50+capacity+1 { // and those of the small flow
		t.Errorf("%d requests at a time", flood.most)
	}
	if flood.served < 8*capacity*int(length/service)/10 {
		t.Errorf("the flood was served %d times: seats were left unused", flood.served)
	}
}

type floodResult struct{ served, refused, most int }

// simulate runs a level and returns the 99th percentile of the time that requests of the small flow, 50 a second, took;
// rate is the flood's.
func simulate(t *testing.T, capacity int, service, length time.Duration, rate int) (p99 time.Duration, r floodResult) {
	type end struct {
		at time.Time
		t  *ticket
	}
	now := epoch
	var running []end
	var took []time.Duration
	s := newQueueSet(limits{queues: 64, length: 50, hand: 8, capacity: capacity}, now, func(tk *ticket) {
		running = append(running, end{now.Add(service), tk})
	}, func(time.Time) {})
	small, large := testFlow("small"), testFlow("large")
	step := 100 * time.Microsecond
	sent, due := 0, 0.0
	for now.Before(epoch.Add(length)) {
		for len(running) > 0 && !running[0].at.After(now) {
			e := running[0]
			running = running[1:]
			s.finish(now, e.t)
			if e.t.flow == small {
				took = append(took, now.Sub(e.t.arrived))
			} else {
				r.served++
			}
		}
		for due += float64(rate) * step.Seconds(); due >= 1; due-- {
			if got := s.arrive(now, &ticket{Estimate: one(), flow: large, which: "large"}, large.hash("large")); got == queueFull || got == queueStillFull {
				r.refused++
			}
		}
		if now.Sub(epoch) >= time.Duration(sent)*20*time.Millisecond {
			sent++
			if got := s.arrive(now, &ticket{Estimate: one(), flow: small, which: "small"}, small.hash("small")); got == queueFull || got == queueStillFull {
				t.Error("the small flow was refused")
			}
		}
		r.most = max(r.most, s.waiting+s.executing)
		now = now.Add(step)
	}
	slices.Sort(took)
	return took[len(took)*99/100], r
}

// After any sequence of events, sums equal the sums of their parts, and all requests are served in the end.
func TestQueueSetInvariants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var serving []*ticket
	now := epoch
	s := newQueueSet(limits{queues: 8, length: 5, hand: 3, capacity: 6}, now, func(tk *ticket) { serving = append(serving, tk) }, func(time.Time) {})
	f := testFlow("f")
	var queued, lingering []*ticket
	for range 20000 {
		now = now.Add(time.Duration(rnd.IntN(2000)) * time.Microsecond)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			tk := &ticket{flow: f, Estimate: Estimate{Initial: 1 + rnd.IntN(3)}}
			if rnd.IntN(3) == 0 {
				tk.Final, tk.Linger = rnd.IntN(9), time.Millisecond
			}
			if s.arrive(now, tk, rnd.Uint64()) == waiting {
				queued = append(queued, tk)
			}
		case 3:
			if len(serving) > 0 {
				n := rnd.IntN(len(serving))
				tk := serving[n]
				serving = slices.Delete(serving, n, n+1)
				if s.finish(now, tk) > 0 {
					lingering = append(lingering, tk)
				}
			}
		case 4:
			if len(queued) > 0 {
				n := rnd.IntN(len(queued))
				s.abandon(now, queued[n])
				queued = slices.Delete(queued, n, n+1)
			}
			if len(lingering) > 0 {
				s.release(now, lingering[0])
				lingering = lingering[1:]
			}
		case 5:
			if rnd.IntN(100) == 0 {
				s.configure(now, limits{queues: 1 + rnd.IntN(12), length: 5, hand: 1, capacity: 1 + rnd.IntN(9)})
			}
		}
		check(t, s, len(serving))
	}
	for len(serving) > 0 || len(lingering) > 0 {
		if len(serving) > 0 {
			tk := serving[0]
			serving = serving[1:]
			if s.finish(now, tk) > 0 {
				lingering = append(lingering, tk)
			}
		} else {
			s.release(now, lingering[0])
			lingering = lingering[1:]
		}
	}
	if !s.idle() || s.seatsInUse != 0 || s.seatsWaiting != 0 || s.active != 0 {
		t.Errorf("at the end: %d waiting, %d served, %d and %d seats, %d active", s.waiting, s.executing, s.seatsInUse, s.seatsWaiting, s.active)
	}
}

func check(t *testing.T, s *queueSet, serving int) {
	t.Helper()
	waits, seats, active := 0, 0, 0
	for _, q := range s.made() {
		waits += len(q.waiting)
		seats += q.seats
		if q.busy() {
			active++
		}
	}
	if waits != s.waiting || seats != s.seatsInUse || active != s.active || s.executing != serving {
		t.Fatalf("waiting %d/%d, seats %d/%d, active %d/%d, served %d/%d", s.waiting, waits, s.seatsInUse, seats, s.active, active, s.executing, serving)
	}
	if s.waiting > 0 && s.executing == 0 && s.seatsInUse == 0 {
		t.Fatal("requests wait although nothing is served")
	}
}
