//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/test/machine"
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
	l := layout{machine.Layout{Cache: t.TempDir(), Group: cgroups}}
	if err := writeNodeFiles(l, 2); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kubelet.yaml": "cgroupRoot: /kanzen-conformance/node-2\n", "kube-proxy.yaml": "hostnameOverride: node-2\n", "cni/10-pods.conflist": `"subnet": "10.212.2.0/24"`,
		"containerd.toml": `sandbox = "` + machine.PauseImage + `"`,
	} {
		b, err := os.ReadFile(l.Config(2, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if !strings.Contains(text, want) || strings.Contains(text, "$") {
			t.Errorf("%s has no %q, or a place that nothing was put into:\n%s", name, want, text)
		}
	}
}
