package jsonpatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	library "gopkg.in/evanphx/json-patch.v4"
)

func apply(t testing.TB, doc, ops string) ([]byte, error) {
	t.Helper()
	p, err := library.DecodePatch([]byte(ops))
	if err != nil {
		t.Fatal(err)
	}
	return Apply(p, []byte(doc))
}

// byLibrary returns the library's result of a patch. It panics on some.
func byLibrary(p library.Patch, doc []byte) (out []byte, err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	out, err = p.Apply(doc)
	return out, err, false
}

const document = `{"a":{"b":[1,2,{"c":null}],"d/e":"x\u003cy","~":{}},"n":null,"s":"text","l":[[],[1],{}],"f":1.50}`

// FuzzApply compares results with the library's.
func FuzzApply(f *testing.F) {
	for _, ops := range []string{
		`[{"op":"add","path":"/a/b/0","value":{"x": [1, 2]}},{"op":"test","path":"/a/b/0/x/1","value":2},{"op":"add","path":"/a/b/-","value":null}]`,
		`[{"op":"remove","path":"/a/b/-1"},{"op":"remove","path":"/a/b/7"}]`,
		`[{"op":"remove","path":"/none"}]`, `[{"op":"remove","path":"/s/x"}]`, `[{"op":"remove"}]`, `[{"op":"add"}]`, `[{"path":"/a"}]`,
		`[{"op":"replace","path":"","value":{"z":1}},{"op":"copy","from":"/z","path":"/y"}]`, `[{"op":"replace","path":"","value":3}]`, `[{"op":"replace","path":"","value":null}]`,
		`[{"op":"replace","path":"/new","value":{"z":1}},{"op":"replace","path":"/l/9","value":1}]`, `[{"op":"replace","path":"/none/x","value":1}]`,
		`[{"op":"move","from":"/a/b","path":"/l/1"},{"op":"move","from":"/a","path":"/a/x"}]`, `[{"op":"move","from":"/l/x","path":"/q"}]`, `[{"op":"move","from":"/none","path":"/q"}]`,
		`[{"op":"copy","from":"/a","path":"/a/copy"},{"op":"copy","from":"/none","path":"/x"},{"op":"copy","from":"/l/9","path":"/x"}]`, `[{"op":"copy","from":"/a","path":"/l/x"}]`,
		`[{"op":"test","path":"/a","value":{"b":[1,2,{"c":null}],"d/e":"x\u003cy","~":{}}}]`, `[{"op":"test","path":"/a/d~1e","value":"x<y"}]`, `[{"op":"test","path":"/a/~0","value":{}}]`,
		`[{"op":"test","path":"/f","value":1.5}]`, `[{"op":"test","path":"/n","value":null},{"op":"test","path":"/n"},{"op":"test","path":"/s"}]`, `[{"op":"test","path":"","value":{"a":1}}]`,
		`[{"op":"test","path":"/l","value":[ [ ] , [1],{} ]},{"op":"test","path":"/l/0/0","value":1}]`, `[{"op":"add","path":"","value":1}]`, `[{"op":"jump"}]`, `[{"op":"add","path":"/l/-9","value":1}]`,
		`[{"op":"add","path":"/n/x","value":1}]`, `[{"op":"add","path":"/x","value":{"a":1,"a":2}},{"op":"test","path":"/x/a","value":2}]`, `[{"op":"add","path":"/x","value":" <&> "}]`,
	} {
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops string) {
		p, err := library.DecodePatch([]byte(ops))
		if err != nil {
			return
		}
		for _, op := range p {
			if op == nil {
				return
			}
		}
		want, wantErr, panicked := byLibrary(p, []byte(document))
		got, err := Apply(p, []byte(document))
		if panicked {
			return
		}
		if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s\ngot  %s, %v\nwant %s, %v", ops, got, err, want, wantErr)
		}
	})
}

// Patches that take the library seconds or minutes end soon: with the result if
// that is small, else with an error.
func TestCost(t *testing.T) {
	items := "[0" + strings.Repeat(",0", 1_000_000) + "]"
	deep := strings.Repeat(`{"a":`, 9000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 9000)
	text := strings.Repeat("x", 1<<20)
	repeat := func(op string, times int) string { return strings.TrimSuffix(strings.Repeat(op+",", times), ",") }
	for _, c := range []struct {
		name, doc, ops string
		refused        bool
	}{
		{"insertions at the front", `{"l":` + items + `}`, repeat(`{"op":"add","path":"/l/0","value":1}`, 10_000), true},
		{"insertions at the end", `{"l":` + items + `}`, repeat(`{"op":"add","path":"/l/-1","value":1}`, 10_000), false},
		{"appended", `{"l":` + items + `}`, repeat(`{"op":"add","path":"/l/-","value":1}`, 10_000), false},
		{"removed", `{"l":` + items + `}`, repeat(`{"op":"remove","path":"/l/0"}`, 10_000), true},
		{"a list of some thousands", `{"l":[` + repeat("0", 5000) + `]}`, repeat(`{"op":"add","path":"/l/0","value":1},{"op":"remove","path":"/l/0"}`, 5000), false},
		{"deep", `{"d":` + deep + `}`, `{"op":"add","path":"/d` + strings.Repeat("/a", 8000) + `","value":1}`, true},
		{"deep by operations", `{"d":{}}`, repeat(`{"op":"move","from":"/d","path":"/e"},{"op":"add","path":"/d","value":{}},{"op":"move","from":"/e","path":"/d/e"}`, 3300), false},
		{"copies", `{"t":"` + text + `"}`, repeat(`{"op":"copy","from":"/t","path":"/u"}`, 10), true},
	} {
		out, err := apply(t, c.doc, "["+c.ops+"]")
		refused := errors.Is(err, ErrCost) || err != nil && strings.Contains(err.Error(), "exceeding the limit")
		if refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %d bytes, %v", c.name, len(out), err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	p, err := library.DecodePatch([]byte(`[{"op":"add","path":"/a/b/0","value":{"x": [1, 2]}},{"op":"test","path":"/a/b/0/x/1","value":2},{"op":"add","path":"/a/b/-","value":null}]`))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("here", func(b *testing.B) {
		for b.Loop() {
			_, _ = Apply(p, []byte(document))
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			_, _ = p.Apply([]byte(document))
		}
	})
}
