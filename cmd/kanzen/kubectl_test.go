package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// TestKubectlOrder puts kubectl where it is looked for, from the last place to the first.
func TestKubectlOrder(t *testing.T) {
	ext := ""
	if runtime.GOOS == "windows" {
		ext = ".exe"
	}
	own, path := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	if _, _, err := kubectlBeside(own); err == nil || !strings.Contains(err.Error(), "no kanzen-kubectl in "+own) || !strings.Contains(err.Error(), "no kubectl on PATH") {
		t.Errorf("without one: %v", err)
	}
	onPath, beside := filepath.Join(path, "kubectl"+ext), filepath.Join(own, "kanzen-kubectl"+ext)
	for _, step := range []struct{ file, name string }{{onPath, "kubectl" + ext}, {beside, "kanzen kubectl"}} {
		if err := os.WriteFile(step.file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if program, name, err := kubectlBeside(own); err != nil || program != step.file || name != step.name {
			t.Errorf("%s as %q, %v, want %s as %q", program, name, err, step.file, step.name)
		}
	}
}

// TestDataDirVariable looks at what commands take for their data directory where the environment names one.
func TestDataDirVariable(t *testing.T) {
	t.Setenv(config.DataDirVariable, "/data")
	for _, step := range []struct{ args, dir, rest string }{
		{"get ns", "/data", "get ns"},
		{"--data-dir /other get ns", "/other", "get ns"},
		{"--data-dir=/other get ns", "/other", "get ns"},
	} {
		if dir, rest := dataDirOf(strings.Fields(step.args)); dir != step.dir || strings.Join(rest, " ") != step.rest {
			t.Errorf("%s: %s and %q", step.args, dir, rest)
		}
	}
	if arg := dataDirArg("/data"); arg != "" {
		t.Errorf("the directory of the environment needs no flag, not%s", arg)
	}
}
