package controllers_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// A controller of one kind begins with its first object, also if that was there before the server started; until then it has no queue.
func TestDormant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, before := range []bool{false, true} {
		s, err := kanzentest.New(t.Context(), kanzentest.DataDir(dir))
		must(t, err)
		k := kubernetes.NewForConfigOrDie(s.Config())
		runs := func(ctx context.Context, queue string) bool {
			all, err := k.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			must(t, err)
			return strings.Contains(string(all), `workqueue_adds_total{name="`+queue+`"}`)
		}
		if !before {
			await(t, func(ctx context.Context) string {
				if !runs(ctx, "namespace") {
					return "a controller of all namespaces does not run"
				}
				return ""
			})
			for _, c := range []string{"pvprotection", "ttl_jobs_to_delete"} {
				if runs(t.Context(), c) {
					t.Errorf("%s runs without an object", c)
				}
			}
			_, err := k.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}, metav1.CreateOptions{})
			must(t, err)
		}
		await(t, func(ctx context.Context) string {
			if !runs(ctx, "pvprotection") {
				return "the controller of volumes does not run"
			}
			return ""
		})
		if runs(t.Context(), "ttl_jobs_to_delete") {
			t.Error("that of jobs runs because there is a volume")
		}
		must(t, s.Stop())
	}
}
