package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// binaries are the programs under test, built by TestMain.
var binaries struct{ dir, kanzen, kubectl string }

// withBuilds has tests run for which libraries are compiled that nothing else here uses.
var withBuilds = flag.Bool("builds", false, "also run tests that first build programs of others, which takes minutes: older kubectls, sample-apiserver, a metrics adapter")

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "kanzen-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binaries.dir = dir
	var g errgroup.Group
	g.Go(func() (err error) {
		binaries.kanzen, err = build("KANZEN", filepath.Join(dir, "kanzen"), "..", "./cmd/kanzen")
		return err
	})
	g.Go(func() (err error) {
		binaries.kubectl, err = buildKubectl(filepath.Join(dir, "kubectl"))
		return err
	})
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// build builds a program into out, unless the environment names one.
func build(env, out, dir, pkg string, flags ...string) (string, error) {
	if p := os.Getenv(env); p != "" {
		return out, os.Symlink(p, out)
	}
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, pkg)...)
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, b)
	}
	return out, nil
}

// buildKubectl builds kubectl as a release has it, unless the environment names one.
func buildKubectl(out string) (string, error) {
	if p := os.Getenv("KUBECTL"); p != "" {
		return out, os.Symlink(p, out)
	}
	if b, err := exec.Command("../release/kubectl/build.sh", out).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl: %w\n%s", err, b)
	}
	return out, nil
}

// buildOthers builds a program that is a module of its own, in a folder named for it, or below that in one for a version. The test
// is skipped without -builds, unless the environment names the program.
func buildOthers(t *testing.T, env, dir string, flags ...string) string {
	t.Helper()
	if !*withBuilds && os.Getenv(env) == "" {
		t.Skip("needs -builds, or the program in " + env)
	}
	name, _, _ := strings.Cut(dir, "/") // that scripts look for on their PATH: kubectl of kubectl/v1.35
	program, err := build(env, filepath.Join(t.TempDir(), name), dir, ".", flags...)
	must(t, err)
	return program
}
