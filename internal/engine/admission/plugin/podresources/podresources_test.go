package podresources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func list(name corev1.ResourceName, n string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(n)}
}

func container(name, cpu string, policy ...corev1.ContainerRestartPolicy) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu), Limits: list("cpu", cpu)}}
	if len(policy) > 0 {
		c.RestartPolicy = &policy[0]
	}
	return c
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	resizing := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "a", Resources: &corev1.ResourceRequirements{Requests: list("cpu", "3"), Limits: list("cpu", "3")}, AllocatedResources: list("cpu", "2")}}}
	refused := *resizing.DeepCopy()
	refused.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	for _, c := range []struct {
		name            string
		pod             corev1.Pod
		o               Options
		request, limits string
	}{
		{"sum", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1"), container("b", "2")}}}, Options{}, "3", "3"},
		{"init container at its worst", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("i", "5")}, Containers: []corev1.Container{container("a", "1")}}}, Options{}, "5", "5"},
		{"sidecar beside all", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("s", "1", always), container("i", "5")}, Containers: []corev1.Container{container("a", "1")}}}, Options{}, "6", "6"},
		{"sidecar after it", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("i", "5"), container("s", "1", always)}, Containers: []corev1.Container{container("a", "1")}}}, Options{}, "5", "5"},
		{"overhead", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1")}, Overhead: list("cpu", "500m")}}, Options{}, "1500m", "1500m"},
		{"without overhead", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1")}, Overhead: list("cpu", "500m")}}, Options{NoOverhead: true}, "1", "1"},
		{"whole pod", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1")},
			Resources: &corev1.ResourceRequirements{Requests: list("cpu", "4"), Limits: list("cpu", "5")}}}, Options{}, "4", "5"},
		{"status ignored", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1")}}, Status: resizing}, Options{}, "1", "1"},
		{"shrinking", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "1")}}, Status: resizing}, Options{Status: true}, "3", "3"},
		{"growing", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "9")}}, Status: resizing}, Options{Status: true}, "9", "9"},
		{"growing in vain", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", "9")}}, Status: refused}, Options{Status: true}, "3", "3"},
	} {
		r, l := Requests(&c.pod, c.o)["cpu"], Limits(&c.pod, c.o)["cpu"]
		if r.Cmp(resource.MustParse(c.request)) != 0 || l.Cmp(resource.MustParse(c.limits)) != 0 {
			t.Errorf("%s: requests %s, limits %s", c.name, r.String(), l.String())
		}
	}
}

func TestHugePagesOfWholePod(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: list("hugepages-2Mi", "2Mi")}}}
	if len(Requests(pod, Options{})) != 1 || len(Requests(pod, Options{NoHugePages: true})) != 0 || !ForWholePod(pod) {
		t.Error("huge pages")
	}
}
