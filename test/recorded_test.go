package test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var record = flag.Bool("record", false, "ask kube-apiserver (bench/peer/bin) for the answers in testdata/recorded, and write them down")

// recorded are answers of kube-apiserver, by question, that depend on its version alone. It takes five seconds of a processor to start,
// so what takes a start of its own is asked once for each version. To ask anew:
//
//	go test -run 'TestManifestRefusals|TestForwardCompatible|TestEmulatedVersions' -record .
type recorded[T any] struct {
	t *testing.T

	mu      sync.Mutex
	answers map[string]T // guarded by mu
}

// newRecorded reads the answers that have a name.
func newRecorded[T any](t *testing.T, name string) *recorded[T] {
	t.Helper()
	r := &recorded[T]{t: t, answers: map[string]T{}}
	path := filepath.Join("testdata", "recorded", name+".json")
	if *record {
		t.Cleanup(func() { r.write(path) })
		return r
	}
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(text, &r.answers))
	return r
}

// answer returns the answer to a question; ask puts it to kube-apiserver.
func (r *recorded[T]) answer(question string, ask func() T) T {
	r.t.Helper()
	if *record {
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
		r.t.Errorf("kube-apiserver was not asked %s: run the test with -record", question)
	}
	return answer
}

func (r *recorded[T]) write(path string) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	must(r.t, e.Encode(r.answers))
	must(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(r.t, os.WriteFile(path, text.Bytes(), 0o644))
}
