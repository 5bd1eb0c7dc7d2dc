//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-nodes=0":      "-nodes: there can be 1 to 100, not 0",
		"-procs=0":      "-procs: at least 1, not 0",
		"specs":         "unknown arguments [specs]",
		"-cache=/tmp/x": "nodes have a /tmp/ of their own",
		"stage nowhere": `there is no stage "nowhere"`,
	} {
		err := mainStage(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", args, err, want)
		}
	}
}

func TestNodeFiles(t *testing.T) {
	l := layout{Cache: t.TempDir()}
	if err := writeNodeFiles(l, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kubelet.yaml": "cgroupRoot: /kanzen-conformance/node-2\n", "kube-proxy.yaml": "hostnameOverride: node-2\n", "cni/10-pods.conflist": `"subnet": "10.212.2.0/24"`,
		"containerd.toml": `sandbox = "` + pauseImage + `"`,
	} {
		text := readFile(t, l.config(2, name))
		if !strings.Contains(text, want) || strings.Contains(text, "$") {
			t.Errorf("%s has no %q, or a place that nothing was put into:\n%s", name, want, text)
		}
	}
}
