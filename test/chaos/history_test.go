package chaos

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"k8s.io/apimachinery/pkg/watch"
)

// judge checks a history: every acknowledged write is among the changes that the watches have delivered, and the operations
// on each object are linearizable. It returns how many operations it has judged.
func judge(t *testing.T, operations []operation, changes []change, limit time.Duration) int {
	t.Helper()
	written := map[string]uint64{} // the version of each value, by object
	for _, c := range changes {
		if c.kind != string(watch.Deleted) {
			written[c.object+" "+c.value] = c.version
		}
	}
	var history []porcupine.Operation
	for _, op := range operations {
		version, seen := written[op.object+" "+op.value]
		switch {
		case op.write && op.outcome == succeeded && !seen:
			t.Errorf("%s = %s was acknowledged at %d, and no watch has it", op.object, op.value, op.version)
		case op.write && op.outcome == succeeded && version != op.version:
			t.Errorf("%s = %s was acknowledged at %d, the watches have it at %d", op.object, op.value, op.version, version)
		case op.write && op.outcome == conflicted && seen:
			t.Errorf("%s = %s was refused, and the watches have it at %d", op.object, op.value, version)
		case op.outcome == unknown && !seen:
			continue // it was never carried out
		}
		ret := op.done.Nanoseconds()
		if op.outcome == unknown {
			op.outcome, ret = succeeded, math.MaxInt64 // it was, at some time
		}
		history = append(history, porcupine.Operation{ClientId: op.worker, Input: op, Output: op, Call: op.call.Nanoseconds(), Return: ret})
	}
	if got := porcupine.CheckOperationsTimeout(register, history, limit); got != porcupine.Ok {
		t.Errorf("linearizability: %s", got)
	}
	return len(history)
}

// register is an object whose value is read, and replaced if it is what the writer has seen. Every value is written once,
// so that values stand for resourceVersions.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		var names []string
		for _, op := range history {
			object := op.Input.(operation).object
			if by[object] == nil {
				names = append(names, object)
			}
			by[object] = append(by[object], op)
		}
		slices.Sort(names)
		var out [][]porcupine.Operation
		for _, object := range names {
			out = append(out, by[object])
		}
		return out
	},
	Init: func() any { return "initial" },
	Step: func(state, input, _ any) (bool, any) {
		op, value := input.(operation), state.(string)
		switch {
		case !op.write:
			return value == op.value, value
		case op.outcome == conflicted:
			return value != op.before, value
		default:
			return value == op.before, op.value
		}
	},
}

// TestJudge has the judge find what is wrong in small histories.
func TestJudge(t *testing.T) {
	write := func(before, value string, version uint64, call, done time.Duration, o outcome) operation {
		return operation{object: "o", write: true, before: before, value: value, version: version, call: call, done: done, outcome: o}
	}
	read := func(value string, call, done time.Duration) operation {
		return operation{object: "o", value: value, call: call, done: done}
	}
	a, b := change{5, "o", "MODIFIED", "a"}, change{6, "o", "MODIFIED", "b"}
	for name, c := range map[string]struct {
		operations []operation
		changes    []change
		wrong      bool
	}{
		"a write is read":             {[]operation{write("initial", "a", 5, 1, 2, succeeded), read("a", 3, 4)}, []change{a}, false},
		"a write is not read":         {[]operation{write("initial", "a", 5, 1, 2, succeeded), read("initial", 3, 4)}, []change{a}, true},
		"a lost update":               {[]operation{write("initial", "a", 5, 1, 2, succeeded), write("initial", "b", 6, 3, 4, succeeded)}, []change{a, b}, true},
		"an acknowledged write lost":  {[]operation{write("initial", "a", 5, 1, 2, succeeded)}, nil, true},
		"unknown, and carried out":    {[]operation{write("initial", "a", 0, 1, 2, unknown), read("initial", 3, 4), read("a", 5, 6)}, []change{a}, false},
		"unknown, and then forgotten": {[]operation{write("initial", "a", 0, 1, 2, unknown), read("a", 3, 4), read("initial", 5, 6)}, []change{a}, true},
		"refused, and carried out":    {[]operation{write("x", "a", 0, 1, 2, conflicted)}, []change{a}, true},
	} {
		inner := &testing.T{}
		judge(inner, c.operations, c.changes, time.Minute)
		if inner.Failed() != c.wrong {
			t.Errorf("%s: found wrong: %t", name, inner.Failed())
		}
	}
}
