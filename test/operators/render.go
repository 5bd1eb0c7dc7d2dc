//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// files reads manifests of the operator's repository: files, and all YAML files in folders.
func (w *world) files(names ...string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		path := filepath.Join(w.source, name)
		paths := []string{path}
		if info, err := os.Stat(path); err != nil {
			return "", err
		} else if info.IsDir() {
			if paths, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return "", err
			}
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "---\n%s\n", text)
		}
	}
	return b.String(), nil
}

// chart renders a chart of the operator's repository with values.
func (w *world) chart(ctx context.Context, dir, release, namespace, values string) (string, error) {
	cmd := exec.CommandContext(ctx, w.l.Program("helm"), dir, release, namespace)
	cmd.Stdin = strings.NewReader(values)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rendering %s: %w: %s", dir, err, said.String())
	}
	return string(out), nil
}

// namespaceOf is the manifest of a namespace.
func namespaceOf(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n---\n"
}
