package kanzentest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func TestControllersAndFlags(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Controllers(), kanzentest.Flags("--event-ttl=5m", "--disable-admission-plugins=ServiceAccount"))
	k := client(t, s.Config())
	if _, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without controllers there is a service account: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("without the plugin: %v", err)
	}
	for _, wrong := range []kanzentest.Option{kanzentest.Flags("--none"), kanzentest.Controllers("none"), func(o *kanzentest.Options) { o.Listen = "nowhere" }} {
		if s, err := kanzentest.New(t.Context(), wrong); err == nil {
			t.Errorf("%v", s.Stop())
		}
	}
}
