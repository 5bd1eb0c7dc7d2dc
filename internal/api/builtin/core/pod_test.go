package core

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

func TestPodGrace(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	tests := []struct {
		name        string
		node        string
		phase       corev1.PodPhase
		asked, spec *int64
		want        int64
	}{
		{"its own", "n", corev1.PodRunning, nil, seconds(30), 30},
		{"as asked", "n", corev1.PodRunning, seconds(5), seconds(30), 5},
		{"negative", "n", corev1.PodRunning, seconds(-5), seconds(30), 1},
		{"no node", "", corev1.PodPending, nil, seconds(30), 0},
		{"ended", "n", corev1.PodFailed, seconds(5), seconds(30), 0},
	}
	for _, tt := range tests {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: tt.node, TerminationGracePeriodSeconds: tt.spec}, Status: corev1.PodStatus{Phase: tt.phase}}
		o := &metav1.DeleteOptions{GracePeriodSeconds: tt.asked}
		if got := podGrace(context.Background(), p, o); got != tt.want || *o.GracePeriodSeconds != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

const podText = `
metadata: {name: a, namespace: b, resourceVersion: "1", labels: {app: x}}
spec:
  nodeSelector: {pool: p}
  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, matchLabelKeys: [app], labelSelector: {}}]}}
  schedulingGates: [{name: g}]
  initContainers: [{name: i, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]
  containers: [{name: c, image: c, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}}]
`

func newPod(t *testing.T, r *engine.Resource) *corev1.Pod {
	t.Helper()
	p := parse[*corev1.Pod](t, r, podText)
	r.Rules.PrepareCreate(context.Background(), p)
	if errs := r.Rules.Validate(context.Background(), p); len(errs) > 0 {
		t.Fatal(errs)
	}
	return p
}

func TestNewPod(t *testing.T) {
	d, _, _ := newDeps()
	p := newPod(t, resourceOf(t, d, "pods"))
	c := p.Status.Conditions
	if p.Generation != 1 || p.Status.QOSClass != corev1.PodQOSBurstable || len(c) != 1 || c[0].Reason != corev1.PodReasonSchedulingGated || !c[0].LastTransitionTime.Equal(&metav1.Time{Time: now}) {
		t.Errorf("status: %+v", p.Status)
	}
	s := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
	if len(s.MatchExpressions) != 1 || s.MatchExpressions[0].Values[0] != "x" {
		t.Errorf("the label's value is not merged into the selector: %+v", s)
	}
}

func TestPodUpdate(t *testing.T) {
	tests := []struct {
		name   string
		change func(p *corev1.Pod)
		want   []string
	}{
		{"image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "d"; p.Spec.InitContainers[0].Image = "j" }, nil},
		{"command", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }, []string{"spec Forbidden"}},
		{"one container more", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "d", ImagePullPolicy: "Always", TerminationMessagePolicy: "File"})
		},
			[]string{"spec.containers Forbidden"}},
		{"gate gone", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, nil},
		{"another gate", func(p *corev1.Pod) { p.Spec.SchedulingGates[0].Name = "h" }, []string{"spec.schedulingGates[0].name Forbidden"}},
		{"fewer nodes", func(p *corev1.Pod) { p.Spec.NodeSelector["more"] = "x" }, nil},
		{"other nodes", func(p *corev1.Pod) { p.Spec.NodeSelector["pool"] = "x" }, []string{"spec.nodeSelector Invalid"}},
		{"toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, nil},
		{"deadline", func(p *corev1.Pod) { n := int64(5); p.Spec.ActiveDeadlineSeconds = &n }, nil},
		{"status is not taken", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, nil},
	}
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "pods")
	old := newPod(t, r)
	for _, tt := range tests {
		p := old.DeepCopy()
		tt.change(p)
		r.Rules.PrepareUpdate(ctx, p, old)
		if got := faults(r.Rules.ValidateUpdate(ctx, p, old)); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if p.Status.Phase != old.Status.Phase {
			t.Errorf("%s: the status changed", tt.name)
		}
	}
}

func TestPodResize(t *testing.T) {
	cpu := corev1.ResourceCPU
	tests := []struct {
		name   string
		change func(c *corev1.Container)
		want   []string
	}{
		{"more CPU", func(c *corev1.Container) { c.Resources.Limits[cpu] = c.Resources.Requests[corev1.ResourceMemory] }, nil},
		{"limit gone", func(c *corev1.Container) { delete(c.Resources.Limits, cpu) }, []string{"spec.containers[0].resources.limits Forbidden"}},
		{"another quality", func(c *corev1.Container) { c.Resources.Requests[cpu] = c.Resources.Limits[cpu] }, []string{"spec Invalid"}},
		{"image is not taken", func(c *corev1.Container) { c.Image = "other" }, nil},
		{"renamed", func(c *corev1.Container) { c.Name = "other" }, []string{"spec.containers[0].name Forbidden"}},
		{"another resource", func(c *corev1.Container) {
			c.Resources.Limits["example.com/x"] = c.Resources.Limits[cpu]
			c.Resources.Requests["example.com/x"] = c.Resources.Limits[cpu]
		},
			[]string{"spec Forbidden"}},
	}
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "pods")
	old := newPod(t, r)
	rules := resizeRules(d)
	for _, tt := range tests {
		p := old.DeepCopy()
		tt.change(&p.Spec.Containers[0])
		rules.PrepareUpdate(ctx, p, old)
		if got := faults(rules.ValidateUpdate(ctx, p, old)); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestEphemeralContainers(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	old := newPod(t, resourceOf(t, d, "pods"))
	rules := ephemeralContainersRules(d)
	debug := corev1.EphemeralContainer{TargetContainerName: "c", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "busybox", ImagePullPolicy: corev1.PullAlways, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}
	p := old.DeepCopy()
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug}
	p.Spec.Containers[0].Image = "other"
	rules.PrepareUpdate(ctx, p, old)
	if errs := rules.ValidateUpdate(ctx, p, old); len(errs) > 0 || p.Spec.Containers[0].Image != "c" || p.Generation != 2 {
		t.Errorf("generation %d, image %s, %v", p.Generation, p.Spec.Containers[0].Image, errs)
	}
	gone := p.DeepCopy()
	gone.Spec.EphemeralContainers = nil
	rules.PrepareUpdate(ctx, gone, p)
	if got := faults(rules.ValidateUpdate(ctx, gone, p)); !slices.Equal(got, []string{"spec.ephemeralContainers Forbidden"}) {
		t.Errorf("taken away: %q", got)
	}
	debug.Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	debug.TargetContainerName = "x"
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug}
	want := []string{"spec.ephemeralContainers[0].ports Forbidden", "spec.ephemeralContainers[0].targetContainerName NotFound"}
	if got := faults(rules.ValidateUpdate(ctx, p, old)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPodStatus(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "pods")
	old := newPod(t, r)
	old.Spec.NodeName = "n"
	old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	old.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p := old.DeepCopy()
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	p.Status.NominatedNodeName = "m"
	p.Status.PodIPs = []corev1.PodIP{{IP: "1.2.3.4"}, {IP: "1.2.3.5"}}
	p.Status.HostIPs = []corev1.HostIP{{IP: "1.2.3.4"}}
	p.Spec.NodeName = "other"
	claims := []corev1.PodResourceClaimStatus{{Name: "gpu"}}
	old.Status.ResourceClaimStatuses = claims
	rules := podStatus(d).Rules
	rules.PrepareUpdate(ctx, p, old)
	if !slices.Equal(p.Status.ResourceClaimStatuses, claims) {
		t.Error("a client that does not know claims took their status away")
	}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{}
	if rules.PrepareUpdate(ctx, p, old); len(p.Status.ResourceClaimStatuses) > 0 {
		t.Error("an empty list does not clear them")
	}
	want := []string{
		"status.containerStatuses[0].state Forbidden", "status.hostIPs[0].ip Invalid",
		"status.nominatedNodeName Forbidden", "status.podIPs Invalid",
	}
	if got := faults(rules.ValidateUpdate(ctx, p, old)); !slices.Equal(got, want) || p.Spec.NodeName != "n" {
		t.Errorf("node %s, got %q, want %q", p.Spec.NodeName, got, want)
	}
}

func podInfo(subresource string) context.Context {
	return request.WithInfo(context.Background(), &request.Info{Version: "v1", Namespace: "b", Resource: "pods", Name: "a", Subresource: subresource})
}

func TestBinding(t *testing.T) {
	tests := []struct {
		name  string
		pod   corev1.Pod
		bind  corev1.Binding
		check func(error) bool
	}{
		{"bound", corev1.Pod{}, corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, func(err error) bool { return err == nil }},
		{"on a node already", corev1.Pod{Spec: corev1.PodSpec{NodeName: "m"}}, corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, apierrors.IsConflict},
		{"gated", corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "g"}}}}, corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, apierrors.IsConflict},
		{"another pod", corev1.Pod{}, corev1.Binding{ObjectMeta: metav1.ObjectMeta{UID: "x"}, Target: corev1.ObjectReference{Name: "n"}}, apierrors.IsConflict},
		{"nowhere", corev1.Pod{}, corev1.Binding{}, func(err error) bool { return err != nil && !apierrors.IsConflict(err) }},
	}
	for _, tt := range tests {
		d, _, objects := newDeps()
		tt.pod.Name, tt.pod.Namespace, tt.bind.Name = "a", "b", "a"
		tt.bind.Labels = map[string]string{"zone": "z"}
		objects["pods/b/a"] = &tt.pod
		_, err := bindPod(d)(podInfo("binding"), "a", &tt.bind, allowed, &metav1.CreateOptions{})
		if !tt.check(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		p := objects["pods/b/a"].(*corev1.Pod)
		if err == nil && (p.Spec.NodeName != "n" || p.Labels["zone"] != "z" || len(p.Status.Conditions) != 1) {
			t.Errorf("%s: pod %+v", tt.name, p)
		}
	}
}

func TestEviction(t *testing.T) {
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	budget := func(s policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
			Status:     s,
		}
	}
	tests := []struct {
		name    string
		status  corev1.PodStatus
		budgets []*policyv1.PodDisruptionBudget
		dryRun  bool
		gone    bool
		check   func(error) bool
		left    int32
	}{
		{name: "no budget", status: corev1.PodStatus{Phase: corev1.PodRunning}, gone: true},
		{name: "room", status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}, gone: true, left: 1,
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2})}},
		{name: "dry run", status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}, dryRun: true, left: 2,
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2})}},
		{name: "no room", status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}, check: apierrors.IsTooManyRequests,
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{})}},
		{name: "not ready, others are", status: corev1.PodStatus{Phase: corev1.PodRunning}, gone: true,
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2})}},
		{name: "pending", status: corev1.PodStatus{Phase: corev1.PodPending}, gone: true,
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{})}},
		{name: "two budgets", status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready},
			budgets: []*policyv1.PodDisruptionBudget{budget(policyv1.PodDisruptionBudgetStatus{}), budget(policyv1.PodDisruptionBudgetStatus{})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, _, objects := newDeps()
			objects["pods/b/a"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", ResourceVersion: "7", Labels: map[string]string{"app": "x"}}, Status: tt.status}
			for i, b := range tt.budgets {
				b.Name += strings.Repeat("x", i)
				objects["poddisruptionbudgets/b/"+b.Name] = b
			}
			o := &metav1.CreateOptions{}
			if tt.dryRun {
				o.DryRun = []string{"All"}
			}
			out, err := evictPod(d)(podInfo("eviction"), "a", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, allowed, o)
			if tt.check == nil && err != nil || tt.check != nil && !tt.check(err) {
				t.Fatalf("got %v", err)
			}
			if len(tt.budgets) == 2 && out.(*metav1.Status).Code != 500 {
				t.Errorf("got %+v", out)
			}
			if _, found := objects["pods/b/a"]; found == tt.gone {
				t.Errorf("the pod is there: %v", found)
			}
			if len(tt.budgets) == 1 {
				if got := objects["poddisruptionbudgets/b/p"].(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed; got != tt.left {
					t.Errorf("%d disruptions are left, want %d", got, tt.left)
				}
			}
		})
	}
}
