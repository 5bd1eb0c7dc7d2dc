package sequences

import (
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
)

// TestComparison compares answers that are the same but for what servers choose, and answers that are not.
func TestComparison(t *testing.T) {
	const u1, u2, v1, v2 = "11111111-1111-4111-8111-111111111111", "21111111-1111-4111-8111-111111111111", "31111111-1111-4111-8111-111111111111", "41111111-1111-4111-8111-111111111111"
	object := func(uid, rv, rest string) string {
		return `{"metadata":{"name":"a","uid":"` + uid + `","resourceVersion":"` + rv + `","creationTimestamp":"2026-01-01T00:00:00Z"}` + rest + `}`
	}
	for _, c := range []struct {
		name  string
		pairs [][2]string // of ours and theirs, one after the other
		want  int         // differences of the last
	}{
		{"the same", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {object(u1, "5", ""), object(v1, "7", "")}}, 0},
		{"another object", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {object(u1, "5", ""), object(v2, "7", "")}}, 1},
		{"one of theirs is two of ours", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {object(u2, "5", ""), object(v1, "7", "")}}, 1},
		{"only theirs was written", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {object(u1, "5", ""), object(v1, "8", "")}}, 1},
		{"a field more", [][2]string{{object(u1, "5", `,"spec":{}`), object(v1, "7", "")}}, 1},
		{"a field less", [][2]string{{object(u1, "5", ""), object(v1, "7", `,"spec":{"a":1}`)}}, 1},
		{"another number", [][2]string{{`{"spec":{"replicas":1}}`, `{"spec":{"replicas":2}}`}}, 1},
		{"another port", [][2]string{{`{"spec":{"ports":[{"nodePort":30500}]}}`, `{"spec":{"ports":[{"nodePort":31500}]}}`}}, 0},
		{"an owner's key", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {`{"k:{\"uid\":\"` + u1 + `\"}":{}}`, `{"k:{\"uid\":\"` + v1 + `\"}":{}}`}}, 0},
		{"another owner's key", [][2]string{{object(u1, "5", ""), object(v1, "7", "")}, {`{"k:{\"uid\":\"` + u1 + `\"}":{}}`, `{"k:{\"uid\":\"` + v2 + `\"}":{}}`}}, 2},
		{"managers in another order", [][2]string{{`{"metadata":{"managedFields":[{"manager":"a"},{"manager":"b"}]}}`, `{"metadata":{"managedFields":[{"manager":"b"},{"manager":"a"}]}}`}}, 1},
		{"causes in another order", [][2]string{{`{"kind":"Status","details":{"causes":[{"field":"a"},{"field":"b"}]}}`, `{"kind":"Status","details":{"causes":[{"field":"b"},{"field":"a"}]}}`}}, 0},
		{"another cause", [][2]string{{`{"kind":"Status","details":{"causes":[{"field":"a"}]}}`, `{"kind":"Status","details":{"causes":[{"field":"b"}]}}`}}, 1},
	} {
		n, got := newNames(), []difference(nil)
		for _, p := range c.pairs {
			ours, err := decode([]byte(p[0]))
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := decode([]byte(p[1]))
			if err != nil {
				t.Fatal(err)
			}
			got = n.answers(answer{code: 200, body: ours}, answer{code: 200, body: theirs})
		}
		if len(got) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if got := newNames().answers(answer{code: 200}, answer{code: 409}); len(got) != 1 {
		t.Error(got)
	}
}

// TestSeeds makes the same sequence twice, and another of another seed.
func TestSeeds(t *testing.T) {
	sequence := func(seed uint64) []step {
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{}, "spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "c"}}}}
		kinds := []*kind{{version: "v1", kind: "Pod", plural: "pods", namespaced: true, bases: []map[string]any{pod}, subresources: []string{"status"}}}
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), kinds: kinds}
		return g.sequence()
	}
	if a, b := script(sequence(1)), script(sequence(1)); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if script(sequence(1)) == script(sequence(2)) {
		t.Error("two seeds make one sequence")
	}
}

// TestScript reads steps as they were printed.
func TestScript(t *testing.T) {
	in := step{Method: "POST", Path: "/a?b=1&c=2", Body: text(map[string]any{"rule": "a <= b && c > \"d\""}), Headers: map[string][]string{"Impersonate-User": {"u"}},
		Until: &step{Method: "GET", Path: "/a", Code: 200}}
	file := t.TempDir() + "/steps"
	if err := os.WriteFile(file, []byte(script([]step{in, in})), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readSteps(t, file); len(got) != 2 || !reflect.DeepEqual(got[1], in) {
		t.Errorf("%v", got)
	}
}
