package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/test/churn"
)

// capacity is what a node has.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110")}
}

// story is something that happens on a cluster; it takes the cluster from one settled state to the next.
type story struct {
	name string
	run  func(m *machines)
}

// TestWholeCluster tells what the rest of Kubernetes does on kanzen: every controller that people know, on nodes that kwok
// plays. With kube-apiserver in bench/peer/bin the same runs there, for a row of figures beside.
func TestWholeCluster(t *testing.T) {
	if !*withMachines {
		t.Skip("run with -machines")
	}
	targets := []func(testing.TB, ...string) *machines{onKanzen}
	if _, err := os.Stat(filepath.Join("..", "bench", "peer", "bin", "kube-apiserver")); err == nil {
		targets = append(targets, onPeer)
	}
	var rows []string
	took := map[string][]time.Duration{}
	for _, target := range targets {
		m := target(t)
		defer func() {
			if t.Failed() {
				t.Log(m.said())
			}
		}()
		m.nodes(5)
		for _, s := range stories {
			begin := time.Now()
			s.run(m)
			took[s.name] = append(took[s.name], time.Since(begin))
		}
		cpu, memory := m.usage()
		rows = append(rows, fmt.Sprintf("%s: %.1f s of processor time, %d MiB", m.name, cpu.Seconds(), memory>>20))
		for _, p := range m.programs {
			p.kill()
		}
	}
	for _, s := range stories {
		rows = append(rows, fmt.Sprintf("%-60s %v", s.name, took[s.name]))
	}
	t.Log("kanzen, kube-apiserver\n" + strings.Join(rows, "\n"))
}

var podLabels = map[string]string{"app": "web"}

// settled waits until the deployment has n available replicas of its newest template, and no others.
func (m *machines) settled(n int32) {
	m.t.Helper()
	within(m.t, 3*time.Minute, fmt.Sprintf("%d replicas", n), func(ctx context.Context) bool {
		d, err := m.k.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == n && d.Status.UpdatedReplicas == n && d.Status.AvailableReplicas == n
	})
}

var stories = []story{
	{"a CronJob is made (it runs beside the rest)", func(m *machines) {
		_, err := m.k.BatchV1().CronJobs("default").Create(m.t.Context(), &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: churn.JobTemplate("cron")}}}}, metav1.CreateOptions{})
		must(m.t, err)
	}},
	{"a Deployment of 50 replicas becomes available", func(m *machines) {
		_, err := m.k.AppsV1().Deployments("default").Create(m.t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](50), Selector: &metav1.LabelSelector{MatchLabels: podLabels}, Template: churn.Template(podLabels)}}, metav1.CreateOptions{})
		must(m.t, err)
		m.settled(50)
	}},
	{"its Service has 50 endpoints in EndpointSlices", func(m *machines) {
		_, err := m.k.CoreV1().Services("default").Create(m.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: podLabels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		must(m.t, err)
		within(m.t, time.Minute, "50 endpoints", func(ctx context.Context) bool {
			list, err := m.k.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
			n := 0
			for _, s := range list.Items {
				n += len(s.Endpoints)
			}
			return err == nil && n == 50
		})
	}},
	{"it rolls to another image", func(m *machines) {
		m.kubectl("set", "image", "deployment/web", "c=image:2")
		m.settled(50)
	}},
	{"it scales to 10 and to 50", func(m *machines) {
		m.kubectl("scale", "deployment/web", "--replicas=10")
		m.settled(10)
		m.kubectl("scale", "deployment/web", "--replicas=50")
		m.settled(50)
	}},
	{"a PodDisruptionBudget allows an eviction, then none", evictions},
	{"a HorizontalPodAutoscaler scales it to its minimum of 60", func(m *machines) {
		_, err := m.k.AutoscalingV2().HorizontalPodAutoscalers("default").Create(m.t.Context(), &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: ptr.To[int32](60), MaxReplicas: 70}}, metav1.CreateOptions{})
		must(m.t, err)
		m.settled(60)
		must(m.t, m.k.AutoscalingV2().HorizontalPodAutoscalers("default").Delete(m.t.Context(), "web", metav1.DeleteOptions{}))
	}},
	{"a DaemonSet runs on each node", func(m *machines) {
		labels := map[string]string{"app": "daemon"}
		_, err := m.k.AppsV1().DaemonSets("default").Create(m.t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: churn.Template(labels)}}, metav1.CreateOptions{})
		must(m.t, err)
		within(m.t, time.Minute, "5 daemons", func(ctx context.Context) bool {
			d, err := m.k.AppsV1().DaemonSets("default").Get(ctx, "daemon", metav1.GetOptions{})
			return err == nil && d.Status.NumberReady == 5
		})
	}},
	{"a node is drained", func(m *machines) {
		m.kubectl("drain", "node-000", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
		list, err := m.k.CoreV1().Pods("default").List(m.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-000", LabelSelector: "app=web"})
		must(m.t, err)
		if len(list.Items) > 0 {
			m.t.Errorf("%d pods are left on the drained node", len(list.Items))
		}
		m.settled(60)
		m.kubectl("uncordon", "node-000")
	}},
	{"a StatefulSet of 3 comes up in order", func(m *machines) {
		labels := map[string]string{"app": "state"}
		_, err := m.k.AppsV1().StatefulSets("default").Create(m.t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "state"}, Spec: appsv1.StatefulSetSpec{
			ServiceName: "state", Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: churn.Template(labels)}}, metav1.CreateOptions{})
		must(m.t, err)
		within(m.t, time.Minute, "3 replicas", func(ctx context.Context) bool {
			s, err := m.k.AppsV1().StatefulSets("default").Get(ctx, "state", metav1.GetOptions{})
			return err == nil && s.Status.ReadyReplicas == 3
		})
		var last time.Time
		for n := range 3 {
			p, err := m.k.CoreV1().Pods("default").Get(m.t.Context(), fmt.Sprintf("state-%d", n), metav1.GetOptions{})
			must(m.t, err)
			if p.CreationTimestamp.Time.Before(last) {
				m.t.Errorf("state-%d came before the one before it", n)
			}
			last = p.CreationTimestamp.Time
		}
	}},
	{"a Job of 3 completes", func(m *machines) {
		_, err := m.k.BatchV1().Jobs("default").Create(m.t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](2), Template: churn.JobTemplate("job")}}, metav1.CreateOptions{})
		must(m.t, err)
		within(m.t, time.Minute, "the job is complete", func(ctx context.Context) bool {
			j, err := m.k.BatchV1().Jobs("default").Get(ctx, "job", metav1.GetOptions{})
			return err == nil && j.Status.Succeeded == 3 && j.Status.CompletionTime != nil
		})
	}},
	{"a claim is bound to a static volume", bindClaim},
	{"the CronJob has made a Job", func(m *machines) {
		within(m.t, 2*time.Minute, "a job of the CronJob", func(ctx context.Context) bool {
			c, err := m.k.BatchV1().CronJobs("default").Get(ctx, "cron", metav1.GetOptions{})
			return err == nil && c.Status.LastSuccessfulTime != nil
		})
	}},
	{"the Deployment is deleted with its dependents", func(m *machines) {
		foreground := metav1.DeletePropagationForeground
		must(m.t, m.k.AppsV1().Deployments("default").Delete(m.t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground}))
		within(m.t, 2*time.Minute, "everything of the deployment is gone", func(ctx context.Context) bool {
			_, err := m.k.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			sets, serr := m.k.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			pods, perr := m.k.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			return apierrors.IsNotFound(err) && serr == nil && perr == nil && len(sets.Items)+len(pods.Items) == 0
		})
	}},
}

func evictions(m *machines) {
	ctx := m.t.Context()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(49)), Selector: &metav1.LabelSelector{MatchLabels: podLabels}}}
	_, err := m.k.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, metav1.CreateOptions{})
	must(m.t, err)
	allowed := func(n int32) {
		m.t.Helper()
		within(m.t, time.Minute, fmt.Sprintf("%d disruptions are allowed", n), func(ctx context.Context) bool {
			b, err := m.k.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", metav1.GetOptions{})
			return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == n && b.Status.ExpectedPods == 50
		})
	}
	evict := func() error {
		m.t.Helper()
		pods, err := m.k.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		must(m.t, err)
		return m.k.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[0].Name}})
	}
	allowed(1)
	must(m.t, evict())
	m.settled(50)
	_, err = m.k.PolicyV1().PodDisruptionBudgets("default").Patch(ctx, "web", "application/merge-patch+json", []byte(`{"spec":{"minAvailable":50}}`), metav1.PatchOptions{})
	must(m.t, err)
	allowed(0)
	if err := evict(); !apierrors.IsTooManyRequests(err) {
		m.t.Errorf("an eviction without a budget: %v", err)
	}
	must(m.t, m.k.PolicyV1().PodDisruptionBudgets("default").Delete(ctx, "web", metav1.DeleteOptions{}))
}

func bindClaim(m *machines) {
	size, modes := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := m.k.CoreV1().PersistentVolumes().Create(m.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}, metav1.CreateOptions{})
	must(m.t, err)
	_, err = m.k.CoreV1().PersistentVolumeClaims("default").Create(m.t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To(""), AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}}}, metav1.CreateOptions{})
	must(m.t, err)
	within(m.t, time.Minute, "the claim is bound", func(ctx context.Context) bool {
		c, err := m.k.CoreV1().PersistentVolumeClaims("default").Get(ctx, "claim", metav1.GetOptions{})
		return err == nil && c.Status.Phase == corev1.ClaimBound && c.Spec.VolumeName == "static"
	})
}
