package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// used makes a directory as a server leaves it.
func used(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	unlock, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Ensure(pki.Options{Dir: filepath.Join(dir, "pki"), Server: "https://127.0.0.1:1", Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "etcd", "member", "snap", "db"), "x")
	write(t, filepath.Join(dir, "etcd", "lock"), "")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		says    string
	}{
		"a file": {func(t *testing.T, dir string) { write(t, dir, "") }, "is a file; name a directory with --data-dir"},
		"a newer version's": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, markFile), `{"kanzen":"9.9.9","kubernetes":"1.99.0"}`)
		}, "was last used by kanzen 9.9.9, which serves Kubernetes 1.99.0"},
		"a mark that is none":      {func(t *testing.T, dir string) { write(t, filepath.Join(dir, markFile), "{") }, "is no mark of kanzen's"},
		"a file above the missing": {func(t *testing.T, dir string) { write(t, filepath.Dir(dir), "") }, "not a directory; name another with --data-dir"},
	} {
		dir := filepath.Join(t.TempDir(), "x", "data")
		c.prepare(t, dir)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		newer bool
	}{{"1.37.0", "1.36.6", true}, {"1.36.9", "1.36.6", false}, {"1.35.0", "1.36.6", false}, {"2.0.0", "1.36.6", true}, {"x", "1.36.6", false}} {
		if newer(c.a, c.b) != c.newer {
			t.Errorf("%s is newer than %s: %t", c.a, c.b, !c.newer)
		}
	}
}

func TestReset(t *testing.T) {
	dir := used(t)
	r, err := Reset(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := r.Remove(); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}
}

func TestResetLeavesWhatOthersMade(t *testing.T) {
	dir := used(t)
	mine := []string{filepath.Join(dir, "notes.txt"), filepath.Join(dir, "pki", "mine.key"), filepath.Join(dir, "etcd", "backup.db")}
	for _, f := range mine {
		write(t, f, "kept")
	}
	r, err := Reset(dir)
	if err != nil {
		t.Fatal(err)
	}
	left, err := r.Remove()
	want := []string{filepath.Join(dir, "etcd"), filepath.Join(dir, "notes.txt"), filepath.Join(dir, "pki")}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, %v", left, err)
	}
	for _, f := range mine {
		if b, err := os.ReadFile(f); err != nil || string(b) != "kept" {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestResetRefuses(t *testing.T) {
	running := used(t)
	unlock, err := Open(running)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := Reset(running); !errors.Is(err, ErrInUse) {
		t.Errorf("while a server runs: %v", err)
	}
	foreign := t.TempDir() // kubeadm's, for instance
	write(t, filepath.Join(foreign, "pki", "ca.key"), "secret")
	write(t, filepath.Join(foreign, "etcd", "member", "snap", "db"), "x")
	again, err := Open(foreign) // serving on it does not make it ours
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := Reset(foreign); err == nil || !strings.Contains(err.Error(), "is no data directory of kanzen's") {
		t.Errorf("a directory of others: %v", err)
	}
	home := t.TempDir()
	write(t, filepath.Join(home, "notes.txt"), "mine")
	if _, err := Open(home); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("a directory with files of others is taken: %v", err)
	}
	if _, err := Reset(filepath.Join(foreign, "none")); err == nil || !strings.Contains(err.Error(), "there is no data directory") {
		t.Errorf("no directory: %v", err)
	}
}
