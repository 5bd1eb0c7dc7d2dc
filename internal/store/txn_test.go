package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

var others = Kind{Prefix: "others/"}

// TestCommit writes objects of two views as one, and then on what is not there any more.
func TestCommit(t *testing.T) { each(t, testCommit) }

func testCommit(t *testing.T, open opener) {
	s := run(t, open(t))
	v, o := s.View(things), s.View(others)
	a, b := create(t, v, "a", "1"), create(t, o, "b", "1")
	relied := create(t, v, "relied", "1")
	done, err := Commit(t.Context(), []Op{
		{View: v, Prev: a, Write: Write{Value: []byte("2")}},
		{View: o, Prev: b, Do: Remove},
		{View: o, Key: "c", Write: Write{Value: []byte("2")}},
		{View: v, Prev: relied, Do: Expect},
		{View: v, Key: "none", Do: Expect},
	})
	if err != nil {
		t.Fatal(err)
	}
	rev := done[0].Rev
	if rev <= relied.Rev || done[1].Rev != rev || done[2].Rev != rev || done[3] != relied || done[4] != nil {
		t.Errorf("%+v", done)
	}
	fresh(t, s)
	for view, want := range map[*View]string{v: "a=2 relied=1 ", o: "c=2 "} {
		snap, err := view.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := contents(snap); got != want || err != nil {
			t.Errorf("%q, want %q, %v", got, want, err)
		}
	}

	_, err = Commit(t.Context(), []Op{
		{View: v, Prev: a, Write: Write{Value: []byte("lost")}},                        // it is at another revision
		{View: o, Prev: b, Write: Write{Value: []byte("lost")}},                        // it is gone
		{View: o, Key: "c", Write: Write{Value: []byte("lost")}},                       // it exists
		{View: v, Prev: relied, Write: Write{Value: []byte("lost")}},                   // right
		{View: v, Key: "none", Do: Expect, Write: Write{Value: []byte("not written")}}, // right
	})
	var c *ConflictsError
	if !errors.As(err, &c) || len(c.Of) != 5 || c.Of[3] != nil || c.Of[4] != nil {
		t.Fatalf("got %v", err)
	}
	if string(c.Of[0].Current.Value()) != "2" || c.Of[0].Current.Rev != rev || c.Of[1].Current != nil || string(c.Of[2].Current.Value()) != "2" {
		t.Errorf("got %+v", err)
	}
	var one *ConflictError
	if !errors.As(err, &one) || one != c.Of[0] {
		t.Errorf("the first conflict is %v", one)
	}
	if i, err := v.Latest(t.Context(), "relied"); err != nil || string(i.Value()) != "1" {
		t.Errorf("a part of it was written: %v, %v", i, err)
	}

	mark, err := s.Mark(t.Context(), "things/m")
	if err != nil {
		t.Fatal(err)
	}
	op := []Op{{View: v, Prev: relied, Write: Write{Value: []byte("2")}}, {View: o, Key: "d", Write: Write{Value: []byte("2")}}}
	if _, err := Commit(t.Context(), op, Guard{"things/m", mark - 1}); !errors.Is(err, ErrVoid) {
		t.Errorf("a void guard: %v", err)
	}
	if _, err := Commit(t.Context(), op, Guard{"things/m", mark}); err != nil {
		t.Error(err)
	}
}

// few is a log that takes only what every database takes.
type few struct{ *memory.DB }

func (few) MaxOps() int { return kv.MaxOps }

// TestCommitRefuses has what no database can carry out.
func TestCommitRefuses(t *testing.T) {
	s, elsewhere := run(t, few{memory.New(clock.RealClock{})}), run(t, memory.New(clock.RealClock{}))
	v, o := s.View(things), elsewhere.View(others)
	for want, ops := range map[string][]Op{
		"without writes":      nil,
		"129 writes":          slices.Repeat([]Op{{View: v}}, 129),
		"transaction without": {{View: v, Key: "a", Do: Expect}},
		"writes":              {{View: v, Key: "a"}, {View: v, Key: "a", Do: Expect}},
		"not in one database": {{View: v, Key: "a"}, {View: o, Key: "a"}},
	} {
		if _, err := Commit(t.Context(), ops); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrUncertain) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// accounts is the model of two accounts: what both hold, each with who wrote it.
var accounts = porcupine.Model{
	Init: func() any { return [2]string{"100", "100"} },
	Step: func(state, input, _ any) (bool, any) {
		in := input.(transfer)
		if in.read {
			return state == in.from, state
		}
		return state == in.from, in.to
	},
}

// transfer is a read of both accounts, or a write that replaces what they held.
type transfer struct {
	read     bool
	from, to [2]string
}

// TestTransfer has 16 writers move amounts between two objects of different kinds, each building on what it last knew of
// both. The sum stays, and what they saw is possible one after another.
func TestTransfer(t *testing.T) { each(t, testTransfer) }

func testTransfer(t *testing.T, open opener) {
	const writers, transfers = 16, 6
	s := run(t, open(t))
	views := [2]*View{s.View(things), s.View(others)}
	first := [2]*Item{create(t, views[0], "ns/a", "100"), create(t, views[1], "ns/b", "100")}
	began := time.Now()
	var mu sync.Mutex
	var ops []porcupine.Operation
	tries := 0
	write := func(writer int) error {
		known := first
		for n, done := 0, 0; done < transfers; n++ {
			amount := rand.IntN(21) - 10
			in := transfer{from: held(known)}
			var op [2]Op
			for k, by := range []int{amount, -amount} {
				was := 0
				_, _ = fmt.Sscanf(in.from[k], "%d", &was)
				in.to[k] = fmt.Sprintf("%d %d-%d", was+by, writer, n)
				op[k] = Op{View: views[k], Prev: known[k], Write: Write{Value: []byte(in.to[k])}}
			}
			call := time.Since(began)
			made, err := Commit(t.Context(), op[:])
			ret := time.Since(began)
			var c *ConflictsError
			switch {
			case err == nil:
				known = [2]*Item{made[0], made[1]}
				done++
			case errors.As(err, &c) && c.Of[0] != nil && c.Of[1] != nil:
				known = [2]*Item{c.Of[0].Current, c.Of[1].Current}
			default:
				return fmt.Errorf("both change together, but not both conflict: %w", err)
			}
			mu.Lock()
			tries++
			if err != nil { // what it was told instead is a read of both, and says by itself that the write was based on something else
				in = transfer{read: true, from: held(known)}
			}
			ops = append(ops, porcupine.Operation{ClientId: writer, Input: in, Call: int64(call), Return: int64(ret)})
			mu.Unlock()
		}
		return nil
	}
	var writing sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			if err := write(n); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	fresh(t, s)
	sum := 0
	for k, key := range []string{"ns/a", "ns/b"} {
		i, err := views[k].Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		_, _ = fmt.Sscanf(string(i.Value()), "%d", &n)
		sum += n
	}
	if sum != 200 {
		t.Errorf("the sum is %d", sum)
	}
	if result, _ := porcupine.CheckOperationsVerbose(accounts, ops, time.Minute); result != porcupine.Ok {
		t.Errorf("what the writers saw is not possible one after another (%s)", result)
	}
	t.Logf("%d transfers in %d tries", writers*transfers, tries)
}

func held(items [2]*Item) [2]string {
	return [2]string{string(items[0].Value()), string(items[1].Value())}
}

// A write of one object costs little more than the log itself does: the parts of its transaction are one allocation.
func TestWriteAllocations(t *testing.T) {
	s := New(memory.New(clock.RealClock{}), Options{Prefix: "/registry/"})
	v := s.View(things)
	i, w := create(t, v, "ns/a", "1"), Write{Value: []byte("2")}
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		var err error
		if i, err = v.Update(ctx, i, w); err != nil {
			t.Fatal(err)
		}
	}); n > 5 {
		t.Errorf("%v allocations", n)
	}
}
