package cel

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
)

type inputs map[Name]any

func (in inputs) Input(name Name) (any, error) {
	if err, ok := in[name].(error); ok {
		return nil, err
	}
	return in[name], nil
}

func TestCompileOnce(t *testing.T) {
	c := NewCompiler()
	a := c.Compile("object.a == 1", Scope{}, Bool)
	if c.Compile("object.a == 1", Scope{}, Bool) != a {
		t.Error("the same expression was compiled twice")
	}
	if c.Compile("object.a == 1", Scope{Params: true}, Bool) == a || c.Compile("object.a == 1", Scope{}, Anything) == a {
		t.Error("expressions of other scopes or for other purposes share a program")
	}
	for expression, want := range map[string]string{
		"object.a +": "compilation failed", "'a'": "must evaluate to bool but got string", "nothing": "undeclared reference",
	} {
		if p := c.Compile(expression, Scope{}, Bool); p.Err() == nil || !strings.Contains(p.Err().Error(), want) {
			t.Errorf("%s: %v", expression, p.Err())
		}
	}
}

func TestRun(t *testing.T) {
	c := NewCompiler()
	full := Scope{Params: true, Variables: true}
	in := inputs{ObjectInput: map[string]any{"n": int64(2)}, RequestInput: errors.New("out of order")}
	vars := []Variable{
		{"double", c.Compile("object.n * 2", full, Anything)},
		{"more", c.Compile("variables.double + 1", full, Anything)},
		{"bad", c.Compile("object.missing", full, Anything)},
	}
	for _, tc := range []struct{ expression, fails string }{
		{"object.n == 2", ""},
		{"oldObject == null && params == null", ""},
		{"variables.more == 5 && variables.double == 4", ""},
		{"true || variables.bad", ""},
		{"variables.bad == 1", `composited variable "bad" fails to evaluate: no such key: missing`},
		{"object.missing == 1", "expression 'object.missing == 1' resulted in error: no such key: missing"},
		{"variables.none == 1", "no such key: none"},
		{"request.name == 'a'", "out of order"},
		{"object.n +", "compilation error: compilation failed"},
	} {
		v, err, end := NewRun(t.Context(), in, vars, 1000).Eval(c.Compile(tc.expression, full, Bool))
		switch {
		case end != nil:
			t.Errorf("%s: %v", tc.expression, end)
		case tc.fails == "" && (err != nil || v != types.True):
			t.Errorf("%s: %v, %v", tc.expression, v, err)
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s: got %v, want %q", tc.expression, err, tc.fails)
		}
	}
}

func TestBudget(t *testing.T) {
	c := NewCompiler()
	cheap := c.Compile("object.n == 2", Scope{Variables: true}, Bool)
	in := inputs{ObjectInput: map[string]any{"n": int64(2)}}
	r := NewRun(t.Context(), in, nil, 1000)
	if _, err, end := r.Eval(cheap); err != nil || end != nil {
		t.Fatal(err, end)
	}
	cost := 1000 - r.Budget()
	if cost <= 0 {
		t.Fatalf("it cost %d", cost)
	}
	r = NewRun(t.Context(), in, nil, 2*cost)
	for n := range 3 {
		_, _, end := r.Eval(cheap)
		if (end != nil) != (n == 2) || end != nil && !IsOutOfBudget(end) {
			t.Errorf("evaluation %d of a budget for two: %v", n, end)
		}
	}
	// The cost of a variable is charged to the expression that needs it.
	vars := []Variable{{"v", c.Compile("[1, 2, 3, 4, 5, 6, 7, 8].all(x, x > 0)", Scope{Variables: true}, Anything)}}
	if _, _, end := NewRun(t.Context(), in, vars, 10).Eval(c.Compile("variables.v", Scope{Variables: true}, Bool)); !IsOutOfBudget(end) {
		t.Errorf("got %v", end)
	}
	if _, _, end := NewRun(t.Context(), in, vars, 10).Eval(cheap); end != nil {
		t.Errorf("a variable that nobody needs was paid for: %v", end)
	}
}
