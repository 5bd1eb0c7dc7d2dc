//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/test/machine"
	"github.com/kanzen-io/kanzen/test/suite"
)

// buildCommon builds what every run needs beside its operator: the control plane, and what renders charts.
func buildCommon(ctx context.Context, l machine.Layout, peer bool) error {
	names := []string{"kube-controller-manager", "kube-scheduler"}
	if peer {
		names = append(names, "kube-apiserver", "etcd")
	}
	for _, name := range names {
		if err := missing(l.Program(name), func() error {
			return run(ctx, "", nil, "make", "-s", "-C", "../bench/peer", "BIN="+l.Peer, l.Program(name))
		}); err != nil {
			return err
		}
	}
	return missing(l.Program("helm"), func() error {
		return run(ctx, "helm", []string{"CGO_ENABLED=0"}, "go", "build", "-ldflags", "-s -w", "-o", l.Program("helm"), ".")
	})
}

// missing makes a program if it is not there.
func missing(path string, make func() error) error {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Printf("building %s (minutes the first time)\n", filepath.Base(path))
	if err := make(); err != nil {
		return fmt.Errorf("building %s: %w", filepath.Base(path), err)
	}
	return nil
}

// source is the folder of an operator's sources in a version, as its repository has them.
func source(l machine.Layout, o *operator) string {
	return filepath.Join(l.Cache, "sources", o.name+"-"+o.version())
}

// program is where the program is that stands for an image of an operator, or one of its tools.
func program(l machine.Layout, o *operator, name string) string {
	if path, is := o.installed[name]; is {
		return path
	}
	return filepath.Join(l.Programs, o.name+"-"+o.version(), name)
}

// build makes the sources and the programs of an operator. Nothing of them is changed: its own go.mod says which versions of others it is
// built with.
func build(ctx context.Context, l machine.Layout, o *operator) error {
	if err := missing(source(l, o), func() error { return copyModules(ctx, o, source(l, o)) }); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(o.programs)) {
		if err := missing(program(l, o, name), func() error {
			return run(ctx, source(l, o), []string{"CGO_ENABLED=0", "GOWORK=off"}, "go", "build", "-mod=mod", "-ldflags", "-s -w", "-o", program(l, o, name), o.programs[name])
		}); err != nil {
			return err
		}
	}
	for _, at := range slices.Sorted(maps.Keys(o.tools)) {
		path := program(l, o, filepath.Base(at))
		if err := missing(path, func() error {
			return run(ctx, "", []string{"CGO_ENABLED=0", "GOWORK=off", "GOBIN=" + filepath.Dir(path)}, "go", "install", "-ldflags", "-s -w", o.tools[at])
		}); err != nil {
			return err
		}
	}
	return nil
}

// copyModules puts the modules of an operator together as they are in its repository.
func copyModules(ctx context.Context, o *operator, to string) error {
	part := to + ".modules"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	for _, m := range o.modules {
		dir, err := download(ctx, m)
		if err != nil {
			return err
		}
		into := filepath.Join(part, m.folder)
		if err := os.MkdirAll(filepath.Dir(into), 0o755); err != nil {
			return err
		}
		if err := suite.CopyModule(dir, into, func(_ string, b []byte) ([]byte, os.FileMode, error) { return b, suite.Mode(b), nil }); err != nil {
			return err
		}
	}
	return os.Rename(part, to)
}

// download returns the folder of the module cache that has a module. One that the checksum database does not know is held against the checksum
// that is written down here.
func download(ctx context.Context, m module) (string, error) {
	if m.sum == "" {
		_, dir, err := suite.Download(".", m.path)
		return dir, err
	}
	path, _, _ := strings.Cut(m.path, "@")
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.path)
	cmd.Env = append(os.Environ(), "GONOSUMDB="+path)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", m.path, err, out)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		return "", err
	}
	if got.Sum != m.sum {
		return "", fmt.Errorf("%s has the checksum %s, not %s", m.path, got.Sum, m.sum)
	}
	return got.Dir, nil
}

// run runs a command in a folder, with more variables, and shows what it prints.
func run(ctx context.Context, dir string, variables []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), variables...)
	return cmd.Run()
}
