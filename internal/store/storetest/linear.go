package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Two keys hold numbers. Clients read both, and move an amount from one to the
// other if neither has changed since: the sum stays.

const (
	movers     = 4
	moves      = 60 // of each
	aFaultEach = 40 // moves
	moveTime   = 10 * time.Second
)

// pair is what both keys hold: their values, and what wrote them.
type pair struct{ a, b string }

type moveInput struct {
	read     bool
	from, to pair
}

type moveOutput struct {
	unknown, refused bool
	saw              pair
}

var pairs = porcupine.Model{
	Init: func() any { return pair{"50", "50"} },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(moveInput), output.(moveOutput)
		if in.read {
			return out.saw == state, state
		}
		fits := state == in.from
		switch {
		case out.unknown && !fits:
			return true, state
		case out.refused:
			return !fits, state
		}
		return fits, in.to
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// history is what clients did and saw.
type history struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) add(client int, call time.Time, in moveInput, out moveOutput) {
	ret := int64(time.Since(h.start))
	if out.unknown {
		ret = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(call.Sub(h.start)), Return: ret})
}

// testLinearizable has clients move amounts while the database is disturbed, and checks that what they saw is possible.
func testLinearizable(t *testing.T, e Engine) {
	db := opened(t, e)
	commit(t, db, kv.Txn{Then: []kv.Op{{Key: "p/a", Value: []byte("50")}, {Key: "p/b", Value: []byte("50")}}})
	h := &history{start: time.Now()}
	r := random(t)
	var disturb sync.Mutex
	var clients sync.WaitGroup
	for client := range movers {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		clients.Go(func() {
			for n := range moves {
				if n%aFaultEach == client*aFaultEach/movers && len(e.Faults) > 0 {
					disturb.Lock()
					e.Faults[own.IntN(len(e.Faults))](db, own)
					disturb.Unlock()
				}
				move(t.Context(), db, h, client, n, own)
			}
		})
	}
	clients.Wait()
	if result, _ := porcupine.CheckOperationsVerbose(pairs, h.ops, patience); result != porcupine.Ok {
		t.Errorf("what clients saw is not possible one after another (%s), in %d operations", result, len(h.ops))
	}
	unknown := 0
	for _, o := range h.ops {
		if o.Output.(moveOutput).unknown {
			unknown++
		}
	}
	t.Logf("%d operations, of %d the outcome is unknown", len(h.ops), unknown)
}

// move reads both keys and then changes both of them, under the condition that neither has changed.
func move(ctx context.Context, db DB, h *history, client, n int, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	var found [2]kv.KeyValue
	call, k := time.Now(), 0
	if _, err := db.Range(ctx, kv.Range{Key: "p/", End: "p0"}, func(v kv.KeyValue) bool { found[k], k = v, k+1; return true }); err != nil {
		return
	}
	saw := pair{string(found[0].Value), string(found[1].Value)}
	h.add(client, call, moveInput{read: true}, moveOutput{saw: saw})
	amount := r.IntN(21) - 10
	in := moveInput{from: saw, to: pair{moved(saw.a, amount, client, n), moved(saw.b, -amount, client, n)}}
	call = time.Now()
	done, err := db.Commit(ctx, kv.Txn{
		If:   []kv.Condition{{Key: "p/a", N: found[0].ModRevision}, {Key: "p/b", N: found[1].ModRevision}},
		Then: []kv.Op{{Key: "p/a", Value: []byte(in.to.a)}, {Key: "p/b", Value: []byte(in.to.b)}},
	})
	h.add(client, call, in, moveOutput{unknown: err != nil, refused: err == nil && !done.Held})
}

// moved is a value after an amount was added to it: the number, and who wrote it, so that no value is written twice.
func moved(value string, amount, client, n int) string {
	was := 0
	_, _ = fmt.Sscanf(value, "%d", &was)
	return fmt.Sprintf("%d %d-%d", was+amount, client, n)
}
