package peer

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Recording says that kube-apiserver (bench/peer/bin) is asked for what tests compare with, and that this is written into their testdata.
var Recording = flag.Bool("record", false, "ask kube-apiserver (bench/peer/bin) for the answers in testdata, and write them down")

// Recorded are answers of kube-apiserver, by question, that depend on its version alone. It takes five seconds of a processor to start,
// so what takes a start of its own is asked once for each version. make record asks anew.
type Recorded[T any] struct {
	t testing.TB

	mu      sync.Mutex
	answers map[string]T // guarded by mu
	asked   int          // how many questions were put, some of which may have failed the test; guarded by mu
}

// NewRecorded reads the answers that have a name, from testdata/recorded beside the test.
func NewRecorded[T any](t testing.TB, name string) *Recorded[T] {
	t.Helper()
	r := &Recorded[T]{t: t, answers: map[string]T{}}
	path := filepath.Join("testdata", "recorded", name+".json")
	if *Recording {
		t.Cleanup(func() {
			if err := r.write(path); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r.answers); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// Answer returns the answer to a question; ask puts it to kube-apiserver.
func (r *Recorded[T]) Answer(question string, ask func() T) T {
	r.t.Helper()
	if *Recording {
		r.mu.Lock()
		r.asked++
		r.mu.Unlock()
		answer := ask()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answers[question] = answer
		return answer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, ok := r.answers[question]
	if !ok {
		r.t.Errorf("kube-apiserver was not asked %s: run make record", question)
	}
	return answer
}

// write writes the answers, unless one is missing. That kanzen answers otherwise is no reason not to: this is what a new version is
// recorded for.
func (r *Recorded[T]) write(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) < r.asked {
		return fmt.Errorf("%s stays as it is: kube-apiserver answered %d of %d questions", path, len(r.answers), r.asked)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(r.answers); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
