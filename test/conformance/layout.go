//go:build linux

package main

import (
	"context"
	"path/filepath"

	"github.com/kanzen-io/kanzen/test/machine"
)

// cgroups is the control group below which the kubelets of a run make theirs.
const cgroups = "kanzen-conformance"

// layout says where the files of a run are. All are below one folder, which is the cache.
type layout struct{ machine.Layout }

// parts is the folder of the reports of the parts of the specs.
func (l layout) parts() string { return filepath.Join(l.Out, "parts") }

// build builds the programs that are not there yet.
func build(ctx context.Context, l layout, peer bool) error {
	programs := []string{"kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler", "kubectl", "e2e.test", "ginkgo", "agnhost", "nonewprivs", "sample-apiserver", "etcd"}
	if peer {
		programs = append(programs, "kube-apiserver")
	}
	return machine.Build(ctx, l.Layout, programs...)
}
