//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kanzen-io/kanzen/test/suite"
)

// parts are the folders of k8s.io/kubernetes that the scripts read.
var parts = []string{"hack", "test/cmd", "test/e2e/testing-manifests", "test/fixtures", "third_party/forked/shell2junit"}

// binaries is where the scripts look for programs.
const binaries = "_output/bin"

// tree is a folder as the scripts want it, for a version of a server: a copy of theirs, with the programs where their Makefile would have built them.
type tree struct{ dir, version string }

// prepare makes the tree of a server anew: the scripts write into it.
func prepare(ctx context.Context, s settings, module string) (*tree, error) {
	t := &tree{dir: filepath.Join(s.out(), "kubernetes")}
	if err := os.RemoveAll(s.out()); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := suite.CopyModule(filepath.Join(module, part), filepath.Join(t.dir, part), func(_ string, b []byte) ([]byte, os.FileMode, error) {
			return b, suite.Mode(b), nil
		}); err != nil {
			return nil, err
		}
	}
	// The scripts ask make for programs, which are there. go.mod tells the Go tool that the folders are of another module than the one they lie in.
	for name, content := range map[string]string{"Makefile": "all:\n\t@:\n", "go.mod": "module k8s.io/kubernetes\n"} {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(t.dir, binaries), 0o755); err != nil {
		return nil, err
	}
	return t, t.addPrograms(ctx, s)
}

func (t *tree) addPrograms(ctx context.Context, s settings) error {
	programs := map[string]string{"kube-apiserver": s.kanzen}
	names := []string{"etcd", "kube-controller-manager", "kubectl", "kubectl-convert"}
	if s.peer {
		names = append(names, "kube-apiserver")
	}
	for _, name := range names {
		programs[name] = filepath.Join(s.programs, name)
		if _, err := os.Stat(programs[name]); err == nil {
			continue
		}
		fmt.Printf("building %s (minutes the first time)\n", name)
		if out, err := exec.CommandContext(ctx, "make", "-s", "-C", "../bench/peer", "BIN="+s.programs, programs[name]).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	for name, path := range programs {
		if err := os.Symlink(path, filepath.Join(t.dir, binaries, name)); err != nil {
			return err
		}
	}
	var err error
	if t.version, err = suite.Version(filepath.Join(t.dir, binaries, "kube-apiserver")); err != nil {
		return err
	}
	if s.peer {
		return nil
	}
	return t.linkKubectl(ctx, s)
}

// linkKubectl links a kubectl of the version that kanzen calls itself, instead of the one of kube-apiserver's: the scripts call it with
// --match-server-version, by which it uses no server of another build.
func (t *tree) linkKubectl(ctx context.Context, s settings) error {
	kubectl := filepath.Join(t.dir, binaries, "kubectl")
	out, err := exec.CommandContext(ctx, s.kanzen, "test", "--", kubectl, "get", "--raw", "/version").Output()
	if err != nil {
		return fmt.Errorf("asking kanzen for its version: %w", err)
	}
	var v struct{ GitVersion, GitCommit, GitTreeState string }
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("the version of kanzen: %w", err)
	}
	flags := []string{"-s", "-w"}
	for name, value := range map[string]string{"gitVersion": v.GitVersion, "gitCommit": v.GitCommit, "gitTreeState": v.GitTreeState} {
		flags = append(flags, "-X", "k8s.io/component-base/version."+name+"="+value)
	}
	if err := os.Remove(kubectl); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", strings.Join(flags, " "), "-o", kubectl, "k8s.io/kubernetes/cmd/kubectl")
	cmd.Dir, cmd.Env = "../bench/peer", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("linking kubectl: %w\n%s", err, out)
	}
	return nil
}
