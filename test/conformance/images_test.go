//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/kanzen-io/kanzen/test/machine"
)

func TestChoose(t *testing.T) {
	made := map[string]machine.Image{"busybox": {User: "1"}, "pause": {}, "nginx": {Layers: [][]machine.File{{{From: "testdata/gone"}}}}}
	images, missing := choose(made, []string{"registry.k8s.io/pause:3", "registry.k8s.io/e2e-test-images/busybox:2", "registry.k8s.io/e2e-test-images/busybox:1", "gcr.io/secret/busybox:1", "registry.k8s.io/perl:5", "registry.k8s.io/pause:3", "registry.k8s.io/nginx:1"})
	if want := []string{"gcr.io/secret/busybox:1", "registry.k8s.io/nginx:1", "registry.k8s.io/perl:5"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %v, want %v", missing, want)
	}
	if len(images) != 2 || !slices.Equal(images[0].Names, []string{"registry.k8s.io/e2e-test-images/busybox:1", "registry.k8s.io/e2e-test-images/busybox:2"}) || images[0].User != "1" || !slices.Equal(images[1].Names, []string{"registry.k8s.io/pause:3"}) {
		t.Errorf("images are %+v", images)
	}
}
