package resourcequota

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func quota(name string, hard, used corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
}

func scoped(q *corev1.ResourceQuota, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q.Spec.Scopes = scopes
	return q
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "ns"} }

func newPod(name string, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
	}}}
}

func build(t *testing.T, objects admission.Objects, config string) admission.Plugin {
	t.Helper()
	p, err := New(objects, clock.RealClock{}, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func used(t *testing.T, o *at.Objects, name string) corev1.ResourceList {
	t.Helper()
	q, err := admission.Seen[*corev1.ResourceQuota](t.Context(), o, admission.ResourceQuotas, "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	return q.Status.Used
}

func TestCharges(t *testing.T) {
	var ten int64 = 10
	terminating := newPod("p", list("cpu", "1"), nil)
	terminating.Spec.ActiveDeadlineSeconds = &ten
	vip := newPod("p", nil, nil)
	vip.Spec.PriorityClassName = "vip"
	withClass := quota("q", list("pods", "1"), list("pods", "1"))
	withClass.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"vip"}}}}
	size := func(s string) *corev1.PersistentVolumeClaim {
		class := "gold"
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta("c"), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: list("storage", s)}}}
	}
	svc := func(kind corev1.ServiceType, ports int) *corev1.Service {
		return &corev1.Service{ObjectMeta: meta("s"), Spec: corev1.ServiceSpec{Type: kind, Ports: make([]corev1.ServicePort, ports)}}
	}
	devices := &resourcev1.ResourceClaim{ObjectMeta: meta("r"), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3}}}}}}

	for _, c := range []struct {
		name  string
		quota *corev1.ResourceQuota
		a     *admission.Attributes
		want  string
		used  corev1.ResourceList // afterwards, for the names in it
	}{
		{"count", quota("q", list("count/secrets", "2", "secrets", "3"), list("count/secrets", "1", "secrets", "1")),
			at.Create(schema.GroupResource{Resource: "secrets"}, &corev1.Secret{ObjectMeta: meta("s")}), "", list("count/secrets", "2", "secrets", "2")},
		{"events are free", quota("q", list("count/events", "0"), list("count/events", "0")),
			at.Create(schema.GroupResource{Resource: "events"}, &corev1.Event{ObjectMeta: meta("e")}), "", nil},
		{"object count", quota("q", list("count/widgets.example.test", "2"), list("count/widgets.example.test", "1")),
			func() *admission.Attributes {
				a := at.Create(admission.Pods, newPod("w", nil, nil))
				a.Resource.Group, a.Resource.Resource = "example.test", "widgets"
				return a
			}(), "", list("count/widgets.example.test", "2")},
		{"full", quota("q", list("pods", "1"), list("pods", "1")), at.Create(admission.Pods, newPod("p", nil, nil)),
			"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", list("pods", "1")},
		{"cpu", quota("q", list("requests.cpu", "2", "pods", "5"), list("requests.cpu", "500m", "pods", "1")), at.Create(admission.Pods, newPod("p", list("cpu", "1500m"), nil)), "", list("requests.cpu", "2", "pods", "2")},
		{"must state", quota("q", list("limits.memory", "2"), list("limits.memory", "0")), at.Create(admission.Pods, newPod("p", list("cpu", "1"), nil)), "must specify limits.memory for: c", nil},
		{"not counted yet", quota("q", list("pods", "5"), nil), at.Create(admission.Pods, newPod("p", nil, nil)), "status unknown for quota: q, resources: pods", nil},
		{"spec alone is no limit", quota("q", nil, nil), at.Create(admission.Pods, newPod("p", nil, nil)), "", nil},
		{"in scope", scoped(quota("q", list("pods", "0"), list("pods", "0")), corev1.ResourceQuotaScopeTerminating), at.Create(admission.Pods, terminating), "exceeded quota", nil},
		{"out of scope", scoped(quota("q", list("pods", "0"), list("pods", "0")), corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort), at.Create(admission.Pods, terminating), "", nil},
		{"priority class", withClass, at.Create(admission.Pods, vip), "exceeded quota", nil},
		{"other priority class", withClass, at.Create(admission.Pods, newPod("p", nil, nil)), "", nil},
		{"deadline brings it under a quota", scoped(quota("q", list("pods", "0"), list("pods", "0")), corev1.ResourceQuotaScopeTerminating), at.Update(admission.Pods, "", terminating, newPod("p", list("cpu", "1"), nil)), "exceeded quota", nil},
		{"resize", quota("q", list("cpu", "2"), list("cpu", "1")), at.Update(admission.Pods, "resize", newPod("p", list("cpu", "1500m"), nil), newPod("p", list("cpu", "1"), nil)), "", list("cpu", "1500m")},
		{"smaller", quota("q", list("cpu", "2"), list("cpu", "2")), at.Update(admission.Pods, "resize", newPod("p", list("cpu", "1"), nil), newPod("p", list("cpu", "2"), nil)), "", list("cpu", "2")},
		{"extended", quota("q", list("requests.example.com/gpu", "1"), list("requests.example.com/gpu", "0")), at.Create(admission.Pods, newPod("p", list("example.com/gpu", "2"), nil)), "exceeded quota", nil},
		{"claim", quota("q", list("requests.storage", "2Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1"), list("requests.storage", "1Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "0")), at.Create(admission.PersistentVolumeClaims, size("1Gi")), "", list("requests.storage", "2Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1")},
		{"claim grows", quota("q", list("gold.storageclass.storage.k8s.io/requests.storage", "2Gi"), list("gold.storageclass.storage.k8s.io/requests.storage", "1Gi")), at.Update(admission.PersistentVolumeClaims, "", size("3Gi"), size("1Gi")), "exceeded quota", nil},
		{"a status is charged, not refused", quota("q", list("requests.storage", "1Gi"), list("requests.storage", "1Gi")), at.Update(admission.PersistentVolumeClaims, "status", size("3Gi"), size("1Gi")), "", list("requests.storage", "3Gi")},
		{"node ports", quota("q", list("services.nodeports", "1"), list("services.nodeports", "0")), at.Update(admission.Services, "", svc(corev1.ServiceTypeNodePort, 2), svc(corev1.ServiceTypeClusterIP, 2)), "exceeded quota", nil},
		{"load balancer", quota("q", list("services.loadbalancers", "1"), list("services.loadbalancers", "0")), at.Create(admission.Services, svc(corev1.ServiceTypeLoadBalancer, 1)), "", list("services.loadbalancers", "1")},
		{"devices", quota("q", list("gpu.deviceclass.resource.k8s.io/devices", "2"), list("gpu.deviceclass.resource.k8s.io/devices", "0")), at.Create(admission.ResourceClaims, devices), "exceeded quota", nil},
		{"status of a pod", quota("q", list("pods", "0"), list("pods", "0")), at.Update(admission.Pods, "status", newPod("p", nil, nil), newPod("p", nil, nil)), "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := at.NewObjects(c.quota.DeepCopy())
			at.Check(t, at.Run(build(t, o, ""), c.a), c.want)
			have := used(t, o, "q")
			for name, q := range c.used {
				if got := have[name]; got.Cmp(q) != 0 {
					t.Errorf("%s: used %s, want %s", name, got.String(), q.String())
				}
			}
		})
	}
}

// However writers race, on one server or several, the sum stays within the quota.
func TestManyWriters(t *testing.T) {
	o := at.NewObjects(quota("tight", list("cpu", "10"), list("cpu", "0")), quota("wide", list("pods", "1000"), list("pods", "0")))
	servers := []admission.Plugin{build(t, o, ""), build(t, o, ""), build(t, o, "")}
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for i := range 90 {
		wg.Go(func() {
			err := at.Run(servers[i%3], at.Create(admission.Pods, newPod(fmt.Sprint("p", i), list("cpu", "1"), nil)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if cpu := used(t, o, "tight")["cpu"]; accepted != 10 || cpu.Value() != 10 {
		t.Errorf("accepted %d, used %s", accepted, cpu.String())
	}
}

// A quota that another server uses up between the decision and the update is
// decided on again.
func TestConflict(t *testing.T) {
	o := at.NewObjects(quota("q", list("pods", "2"), list("pods", "1")))
	once := sync.Once{}
	o.Before = func() { once.Do(func() { o.Put(quota("q", list("pods", "2"), list("pods", "2"))) }) }
	at.Check(t, at.Run(build(t, o, ""), at.Create(admission.Pods, newPod("p", nil, nil))), "exceeded quota")
	if pods := used(t, o, "q")["pods"]; pods.Value() != 2 {
		t.Errorf("used %s", pods.String())
	}
}

func TestDryRun(t *testing.T) {
	o := at.NewObjects(quota("q", list("pods", "1"), list("pods", "0")))
	p := build(t, o, "")
	a := at.Create(admission.Pods, newPod("p", nil, nil))
	a.DryRun = true
	at.Check(t, at.Run(p, a), "")
	if pods := used(t, o, "q")["pods"]; pods.Value() != 0 {
		t.Errorf("a dry run was charged: %s", pods.String())
	}
	o.Put(quota("q", list("pods", "1"), list("pods", "1")))
	at.Check(t, at.Run(p, a), "exceeded quota")
}

func TestLimitedResources(t *testing.T) {
	const config = `
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- {resource: pods, matchContains: [example.com/gpu]}
`
	gpu := newPod("p", list("example.com/gpu", "1"), nil)
	p := build(t, at.NewObjects(), config)
	at.Check(t, at.Run(p, at.Create(admission.Pods, newPod("p", nil, nil))), "")
	at.Check(t, at.Run(p, at.Create(admission.Pods, gpu)), "insufficient quota to consume: requests.example.com/gpu")
	covered := at.NewObjects(quota("q", list("requests.example.com/gpu", "1"), list("requests.example.com/gpu", "0")))
	at.Check(t, at.Run(build(t, covered, config), at.Create(admission.Pods, gpu)), "")
	for _, bad := range []string{"kind: X", "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources: [{}]"} {
		if _, err := New(at.NewObjects(), clock.RealClock{}, []byte(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

// A pod that its node should have ended by now no longer uses quota.
func TestEndedPods(t *testing.T) {
	p := &plugin{clock: clock.RealClock{}}
	zero := int64(0)
	long := metav1.Unix(1, 0)
	ended := newPod("p", nil, nil)
	ended.Status.Phase = corev1.PodSucceeded
	lost := newPod("p", nil, nil)
	lost.DeletionTimestamp, lost.DeletionGracePeriodSeconds = &long, &zero
	for _, pod := range []*corev1.Pod{ended, lost} {
		if l := p.podUsage(pod); len(l) != 1 {
			t.Errorf("counts %v", l)
		}
	}
}

// A charge is valid until usage is counted after it; then it is made again.
func TestReservation(t *testing.T) {
	o := at.NewObjects(quota("q", list("pods", "2"), list("pods", "0")))
	p := build(t, o, "")
	a := at.Create(admission.Pods, newPod("p", nil, nil))
	at.Check(t, at.Run(p, a), "")
	charged, err := admission.Seen[*corev1.ResourceQuota](t.Context(), o, admission.ResourceQuotas, "ns", "q")
	if err != nil {
		t.Fatal(err)
	}
	r := a.Reserved
	if r == nil || r.Mark != "resourcequotas/ns" || fmt.Sprint(r.Rev) != charged.ResourceVersion {
		t.Fatalf("reserved %+v, charged at %s", r, charged.ResourceVersion)
	}
	// A count that has not seen the pod.
	o.Put(quota("q", list("pods", "2"), list("pods", "1")))
	if err := r.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pods := used(t, o, "q")["pods"]; pods.Value() != 2 || fmt.Sprint(r.Rev) <= charged.ResourceVersion {
		t.Errorf("used %s, reserved since %d", pods.String(), r.Rev)
	}
	// One that leaves no room.
	at.Check(t, r.Renew(t.Context()), "exceeded quota")

	free := at.Create(schema.GroupResource{Resource: "events"}, &corev1.Event{ObjectMeta: meta("e")})
	at.Check(t, at.Run(p, free), "")
	if free.Reserved != nil {
		t.Error("what is free was reserved")
	}
}
