package peer

import (
	"os"
	"path/filepath"
	"testing"
)

// What is recorded is written even if kanzen answers otherwise, and not if an answer is missing.
func TestRecordedIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recorded", "a.json")
	r := &Recorded[string]{t: t, answers: map[string]string{"q": "a"}, asked: 2}
	if err := r.write(path); err == nil {
		t.Error("an answer is missing, and the rest is written")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file")
	}
	r.asked = 1
	if err := r.write(path); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{\n \"q\": \"a\"\n}\n" {
		t.Errorf("%q, %v", b, err)
	}
}
