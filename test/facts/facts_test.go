package facts

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// accepted is a fact that is meant to differ: its name, or how names begin if it ends with *; all sets or one.
type accepted struct {
	set, name string
	used      bool
}

func (a *accepted) covers(set, name string) bool {
	if a.set != "" && a.set != set {
		return false
	}
	prefix, ok := strings.CutSuffix(a.name, "*")
	return name == a.name || ok && strings.HasPrefix(name, prefix)
}

// readAccepted reads testdata/accepted.txt: lines of names, an optional set before them ("all-gates: NAME"); comments give reasons.
func readAccepted(t *testing.T, sets []Set) (out []*accepted) {
	t.Helper()
	file, err := os.Open("testdata/accepted.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		a := &accepted{name: line}
		for _, set := range sets {
			if rest, ok := strings.CutPrefix(line, set.Name+": "); ok {
				a.set, a.name = set.Name, rest
			}
		}
		out = append(out, a)
	}
	return out
}

// TestFacts compares what kanzen is made of with what kube-apiserver is, and fails for each fact by its name that differs and is not
// accepted. After the facts of another version have been recorded it lists what taking it up has to decide.
func TestFacts(t *testing.T) {
	kanzen := os.Getenv("KANZEN")
	if kanzen == "" {
		t.Skip("KANZEN is not set to the binary to test")
	}
	sets, err := Sets(t.Context(), kanzen)
	if err != nil {
		t.Fatal(err)
	}
	accepted := readAccepted(t, sets)
	for _, set := range sets {
		name := set.Name
		theirs, err := Read("testdata/" + name + ".txt.gz")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Start(t.Context(), kanzen, kanzen, t.TempDir(), set.Flags...)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := Record(t.Context(), s)
		s.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if len(theirs) < 9_000 {
			t.Errorf("%s: only %d facts are recorded", name, len(theirs))
		}
		differ := 0
	next:
		for _, d := range Compare(ours, theirs) {
			for _, a := range accepted {
				if a.covers(name, d.Name) {
					a.used = true
					continue next
				}
			}
			if differ++; differ < 500 {
				t.Errorf("%s: %s", name, d)
			}
		}
		t.Logf("%s: %d facts, %d differ", name, len(theirs), differ)
	}
	for _, a := range accepted {
		if !a.used {
			t.Errorf("testdata/accepted.txt: nothing differs any more: %s", a.name)
		}
	}
}

func TestCompare(t *testing.T) {
	before := Facts{"gate A": "ALPHA 0", "gate B": "BETA 1", "flag --c": "int"}
	after := Facts{"gate A": "BETA 1", "gate B": "BETA 1", "kind D": "x"}
	var got []string
	for _, d := range Compare(before, after) {
		got = append(got, d.Family()+"/"+d.String())
	}
	want := []string{"flag/gone     flag --c: int", "gate/changed  gate A: ALPHA 0 -> BETA 1", "kind/new      kind D: x"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
	path := t.TempDir() + "/f"
	if err := after.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := Read(path)
	if err != nil || len(Compare(after, again)) > 0 {
		t.Errorf("%v, %v", again, err)
	}
}
