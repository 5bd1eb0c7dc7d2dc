package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func TestResizeVolumes(t *testing.T) {
	volume := func(name string, medium corev1.StorageMedium, size string) corev1.Volume {
		d := &corev1.EmptyDirVolumeSource{Medium: medium}
		if size != "" {
			d.SizeLimit = new(resource.MustParse(size))
		}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: d}}
	}
	old := []corev1.Volume{volume("a", corev1.StorageMediumMemory, "1Gi"), volume("b", "", "1Gi")}
	for _, c := range []struct {
		name string
		to   []corev1.Volume
		want []string
	}{
		{"in memory", []corev1.Volume{volume("a", corev1.StorageMediumMemory, "2Gi"), old[1]}, nil},
		{"on disk", []corev1.Volume{old[0], volume("b", "", "2Gi")}, []string{"spec.volumes[1].emptyDir.sizeLimit Forbidden"}},
		{"no limit", []corev1.Volume{volume("a", corev1.StorageMediumMemory, ""), old[1]}, []string{"spec.volumes[0].emptyDir.sizeLimit Forbidden"}},
		{"medium", []corev1.Volume{volume("a", "", "1Gi"), old[1]}, []string{"spec.volumes[0] Forbidden"}},
		{"order", []corev1.Volume{old[1], old[0]}, []string{"spec.volumes[0].name Forbidden", "spec.volumes[1].name Forbidden"}},
		{"fewer", old[:1], []string{"spec.volumes Forbidden"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := rules.At(field.NewPath("spec", "volumes"))
			s := &corev1.PodSpec{Volumes: c.to}
			resizeVolumes(s, &corev1.PodSpec{Volumes: old}, e)
			if got := faults(e.List()); !slices.Equal(got, c.want) || len(s.Volumes) != len(old) {
				t.Errorf("got %q, not %q; volumes %v", got, c.want, s.Volumes)
			}
		})
	}
}

func TestMountedImages(t *testing.T) {
	e := rules.At(field.NewPath("volumeMounts"))
	mountedImages([]corev1.VolumeMountStatus{{}, {VolumeStatus: &corev1.VolumeStatus{Image: &corev1.ImageVolumeStatus{}}}}, e)
	if got, want := faults(e.List()), []string{"volumeMounts[1].volumeStatus.imageVolumeStatus.imageRef Required"}; !slices.Equal(got, want) {
		t.Errorf("got %q, not %q", got, want)
	}
}

func TestLogStreams(t *testing.T) {
	for _, c := range []struct {
		stream string
		tail   *int64
		split  bool
		want   []string
	}{
		{"", nil, true, nil},
		{"Stdout", nil, true, nil},
		{"Stdout", nil, false, []string{"stream Forbidden"}},
		{"Stdout", new(int64(1)), true, []string{"[] Forbidden"}},
		{"All", new(int64(1)), true, nil},
		{"Other", nil, true, []string{"stream NotSupported"}},
	} {
		o := &corev1.PodLogOptions{TailLines: c.tail}
		if c.stream != "" {
			o.Stream = &c.stream
		}
		if got := faults(ValidateLogOptions(o, c.split)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestNodePreemption(t *testing.T) {
	n := &corev1.Node{}
	n.Name = "n"
	n.Spec.PodPreemptionPolicy = &corev1.NodePodPreemptionPolicy{DisableResizePreemption: []string{"a/b", "a/b", "-"}}
	want := []string{"spec.podPreemptionPolicy.disableResizePreemption[1] Duplicate", "spec.podPreemptionPolicy.disableResizePreemption[2] Invalid"}
	if got := faults(validateNode(n, false)); !slices.Equal(got, want) {
		t.Errorf("got %q, not %q", got, want)
	}
	n.ResourceVersion = "1"
	if got := faults(validateNodeUpdate(t.Context(), n, n)); len(got) > 0 {
		t.Errorf("a stored node may not keep it: %q", got)
	}
}
