package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// The model of one key: a register that holds a value or nothing (""). Values
// are never written twice, so a value stands for its revision too.

type opKind int

const (
	opGet opKind = iota
	opCreate
	opUpdate
	opDelete
)

type opInput struct {
	kind  opKind
	key   string
	prev  string // what an update or deletion builds on
	value string // what is written
}

type opOutput struct {
	unknown bool // the write may have happened or not
	refused bool // conflict, or already there
	value   string
}

var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, o := range all {
			k := o.Input.(opInput).key
			keys[k] = append(keys[k], o)
		}
		var out [][]porcupine.Operation
		for _, l := range keys {
			out = append(out, l)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(opInput), output.(opOutput)
		if in.kind == opGet {
			return out.value == state, state
		}
		// Creations build on "", as updates on what they saw.
		fits := state == in.prev
		switch {
		case out.unknown && !fits:
			return true, state
		case out.refused:
			return !fits, state
		}
		return fits, in.value
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// truth is what happened according to etcd itself, read by a plain watch.
type truth struct {
	mu      sync.Mutex
	changed *sync.Cond
	events  []kv.Event
	rev     int64
}

func newTruth() *truth {
	tr := &truth{}
	tr.changed = sync.NewCond(&tr.mu)
	return tr
}

// follow adds events to the truth until ctx ends.
func (tr *truth) follow(ctx context.Context, db DB) {
	for ctx.Err() == nil {
		watch := kv.Watch{Key: "/registry/", Prefix: true, From: tr.revision() + 1, Prev: true}
		_ = db.Watch(ctx, watch, func(events []kv.Event, rev int64) error {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.events, tr.rev = append(tr.events, events...), rev
			tr.changed.Broadcast()
			return nil
		})
	}
}

func (tr *truth) revision() int64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.rev
}

// wait returns when the truth is known up to rev, or ctx ends.
func (tr *truth) wait(ctx context.Context, rev int64) {
	defer context.AfterFunc(ctx, func() {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.changed.Broadcast()
	})()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for tr.rev < rev && ctx.Err() == nil {
		tr.changed.Wait()
	}
}

const truthPrefix = "/registry/things/"

// told is one event as a watcher received it.
type told struct {
	rev              int64
	key, value, prev string
}

func toldOf(e *Event) told {
	o := told{rev: e.Rev, key: e.Key()}
	if e.Item != nil {
		o.value = string(e.Item.Value())
	}
	if e.Prev != nil {
		o.prev = string(e.Prev.Value())
	}
	return o
}

// between lists the events that a watcher must receive after revision from, up
// to and including to.
func (tr *truth) between(from, to int64, wants func(told) bool) (out []told) {
	for _, e := range tr.events {
		o := told{rev: e.ModRevision, key: strings.TrimPrefix(string(e.Key), truthPrefix), value: string(e.Value)}
		o.prev = string(e.Prev.Value)
		if o.rev > from && o.rev <= to && wants(o) {
			out = append(out, o)
		}
	}
	return out
}

// at returns the state as of revision rev, in the form of text().
func (tr *truth) at(rev int64) string {
	state := map[string]string{}
	for _, o := range tr.between(0, rev, func(told) bool { return true }) {
		if state[o.key] = o.value; o.value == "" {
			delete(state, o.key)
		}
	}
	keys := []string{}
	for k := range state {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := ""
	for _, k := range keys {
		out += fmt.Sprintf("%s=%s ", k, state[k])
	}
	return out
}

func checkLinearizable(t *testing.T, ops []porcupine.Operation) {
	t.Helper()
	res := porcupine.CheckOperationsTimeout(register, ops, 20*time.Second)
	if res != porcupine.Ok {
		t.Errorf("the history of operations is not linearizable: %v", res)
	}
}
