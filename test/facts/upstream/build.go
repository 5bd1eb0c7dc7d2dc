package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const kubernetes = "k8s.io/kubernetes"

// build builds the kube-apiserver of a version from the module proxy, in a module of its own. What was built once is kept.
func build(ctx context.Context, s settings, w io.Writer) (string, error) {
	if s.version == "" {
		return filepath.Join(s.root, "bench", "peer", "bin", "kube-apiserver"), nil
	}
	minor, ok := strings.CutPrefix(s.version, "v1.")
	if !ok {
		return "", fmt.Errorf("-version %s: want v1.MINOR.PATCH", s.version)
	}
	if s.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		s.cache = filepath.Join(dir, "kanzen-upstream")
	}
	dir := filepath.Join(s.cache, s.version)
	program := filepath.Join(dir, "kube-apiserver")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	fmt.Fprintf(w, "building kube-apiserver %s (minutes the first time)\n", s.version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b := builder{ctx, dir, "v0." + minor}
	staged, err := b.staged(s.version)
	if err != nil {
		return "", err
	}
	if err := b.module(s.version, staged); err != nil {
		return "", err
	}
	if _, err := b.goTool("mod", "tidy"); err != nil {
		return "", err
	}
	_, err = b.goTool("build", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+s.version, "-o", program, kubernetes+"/cmd/kube-apiserver")
	return program, err
}

type builder struct {
	ctx     context.Context
	dir     string
	library string // version of the modules that Kubernetes stages
}

// goTool runs the Go tool in the module and returns what it printed.
func (b *builder) goTool(args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, "go", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := errs.String()
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text[max(0, len(text)-2000):])
	}
	return string(out), nil
}

// staged returns the modules that Kubernetes replaces by folders of its repository; they are modules of their own at the same version.
func (b *builder) staged(version string) ([]string, error) {
	out, err := b.goTool("mod", "download", "-json", kubernetes+"@"+version)
	if err != nil {
		return nil, err
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		return nil, err
	}
	if out, err = b.goTool("mod", "edit", "-json", module.GoMod); err != nil {
		return nil, err
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(out), &file); err != nil {
		return nil, err
	}
	var staged []string
	for _, r := range file.Require {
		if r.Version == "v0.0.0" {
			staged = append(staged, r.Path)
		}
	}
	return staged, nil
}

// module writes a module that needs kube-apiserver.
func (b *builder) module(version string, staged []string) error {
	var mod strings.Builder
	fmt.Fprintf(&mod, "module peer\n\ngo 1.24\n\nrequire %s %s\n\nreplace (\n", kubernetes, version)
	for _, path := range staged {
		fmt.Fprintf(&mod, "\t%s => %s %s\n", path, path, b.library)
	}
	mod.WriteString(")\n")
	if err := os.WriteFile(filepath.Join(b.dir, "go.mod"), []byte(mod.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "peer.go"), []byte("package peer\n\nimport _ \""+kubernetes+"/cmd/kube-apiserver/app\"\n"), 0o644)
}
