//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var kueue = operator{
	name:     "kueue",
	modules:  []module{{path: "sigs.k8s.io/kueue@v0.17.0"}},
	programs: map[string]string{"kueue": "./cmd/kueue"},
	install:  installKueue,
	leftOut:  map[string]string{"MultiKueue": "it needs several clusters", "jobs of other projects": "their operators are not installed"},
	steps: []step{
		{"its own authority is in the configurations of its webhooks", kueueInjected},
		{"queues become active", queuesActive},
		{"the webhook refuses a queue without flavors", queueRefused},
		{"a queue is read and written in its other version", queueConverted},
		{"of two jobs the one that fits runs, and the other waits", oneJobRuns},
		{"the visibility API is discovered through the aggregator", visibilityDiscovered},
		{"the visibility API shows what waits", visibilityShows},
		{"the visibility API asks the server who may see it", visibilityAuthorized},
		{"when a job ends, the next runs", nextJobRuns},
		{"a job of a higher priority takes the place of a lower one", jobPreempts},
		{"a queue that is stopped drains", queueStops},
		{"a deployment of pods waits for its quota", podsGated},
		{"a job that is deleted takes its workload along", workloadGoes},
	},
}

const (
	kueueVersion = "kueue.x-k8s.io/v1beta2"
	visibility   = "/apis/visibility.kueue.x-k8s.io/v1beta2"
)

func installKueue(ctx context.Context, w *world) error {
	manifests, err := w.chart(ctx, w.source+"/charts/kueue", "kueue", "kueue-system", "")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "kueue-system", namespaceOf("kueue-system")+namespaceOf("lab")+manifests); err != nil {
		return err
	}
	return w.available(ctx, "kueue-system")
}

func kueueInjected(ctx context.Context, w *world) error {
	for kind, name := range map[string]string{"ValidatingWebhookConfiguration": "kueue-validating-webhook-configuration", "MutatingWebhookConfiguration": "kueue-mutating-webhook-configuration"} {
		if err := w.until(ctx, key{"admissionregistration.k8s.io/v1", kind, name}, hasAuthority); err != nil {
			return err
		}
	}
	return nil
}

const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: plain}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: lab}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: plain, resources: [{name: cpu, nominalQuota: 4}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lab}
spec: {clusterQueue: lab}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
description: what does not wait`

func queuesActive(ctx context.Context, w *world) error {
	if err := w.eventually(ctx, "create queues", func(ctx context.Context) error { return w.apply(ctx, "lab", queues) }); err != nil {
		return err
	}
	if err := w.until(ctx, key{kueueVersion, "ClusterQueue", "lab"}, condition("Active", "True")); err != nil {
		return err
	}
	return w.until(ctx, key{kueueVersion, "LocalQueue", "lab/lab"}, condition("Active", "True"))
}

func queueRefused(ctx context.Context, w *world) error {
	return w.refused(ctx, "", `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: bad}
spec:
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: plain, resources: [{name: cpu, nominalQuota: 4}]}]}
  - {coveredResources: [cpu], flavors: [{name: other, resources: [{name: cpu, nominalQuota: 4}]}]}`, "Duplicate value")
}

func queueConverted(ctx context.Context, w *world) error {
	old, err := w.get(ctx, key{"kueue.x-k8s.io/v1beta1", "ClusterQueue", "lab"})
	if err != nil {
		return err
	}
	if err := value("spec.preemption.withinClusterQueue", "LowerPriority")(old); err != nil {
		return err
	}
	if err := w.apply(ctx, "lab", "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: older}\nspec: {cohort: friends}"); err != nil {
		return err
	}
	return w.until(ctx, key{kueueVersion, "ClusterQueue", "older"}, value("spec.cohortName", "friends"))
}

const jobText = `
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: lab%s}}
spec:
  completions: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: work, resources: {requests: {cpu: 3}}}]`

func (w *world) job(ctx context.Context, name, labels string) error {
	return w.apply(ctx, "lab", fmt.Sprintf(jobText, name, labels))
}

func jobKey(name string) key { return key{"batch/v1", "Job", "lab/" + name} }

// workload is that of a job.
func (w *world) workload(ctx context.Context, job string) (*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(kueueVersion)
	list.SetKind("WorkloadList")
	if err := w.client.List(ctx, list, client.InNamespace("lab")); err != nil {
		return nil, err
	}
	for _, u := range list.Items {
		for _, owner := range u.GetOwnerReferences() {
			if owner.Kind == "Job" && owner.Name == job {
				return &u, nil
			}
		}
	}
	return nil, fmt.Errorf("job %s has no workload", job)
}

func (w *world) workloadIs(ctx context.Context, job string, is func(*unstructured.Unstructured) error) error {
	return w.eventually(ctx, "the workload of "+job, func(ctx context.Context) error {
		u, err := w.workload(ctx, job)
		if err != nil {
			return err
		}
		return is(u)
	})
}

func oneJobRuns(ctx context.Context, w *world) error {
	if err := w.job(ctx, "first", ""); err != nil {
		return err
	}
	if err := w.until(ctx, jobKey("first"), both(value("spec.suspend", false), value("status.ready", 1))); err != nil {
		return err
	}
	if err := w.job(ctx, "second", ""); err != nil {
		return err
	}
	if err := w.workloadIs(ctx, "second", condition("QuotaReserved", "False")); err != nil {
		return err
	}
	return w.until(ctx, jobKey("second"), value("spec.suspend", true))
}

func visibilityDiscovered(ctx context.Context, w *world) error {
	return w.eventually(ctx, "discovery", func(context.Context) error {
		list, err := w.kube.Discovery().ServerResourcesForGroupVersion("visibility.kueue.x-k8s.io/v1beta2")
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			if r.Name == "clusterqueues/pendingworkloads" {
				return nil
			}
		}
		return fmt.Errorf("it has %v", list.APIResources)
	})
}

// pending asks as a user which workloads of a queue wait.
func pending(ctx context.Context, kube kubernetes.Interface, path string) (names []string, err error) {
	b, err := kube.Discovery().RESTClient().Get().AbsPath(visibility + path).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var got struct {
		Items []metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(b, &got); err != nil {
		return nil, err
	}
	for _, item := range got.Items {
		names = append(names, item.Name)
	}
	return names, nil
}

const (
	ofCluster = "/clusterqueues/lab/pendingworkloads"
	ofLocal   = "/namespaces/lab/localqueues/lab/pendingworkloads"
)

func visibilityShows(ctx context.Context, w *world) error {
	u, err := w.workload(ctx, "second")
	if err != nil {
		return err
	}
	for _, path := range []string{ofCluster, ofLocal} {
		if err := w.eventually(ctx, path, func(ctx context.Context) error {
			names, err := pending(ctx, w.kube, path)
			if err == nil && (len(names) != 1 || names[0] != u.GetName()) {
				err = fmt.Errorf("it shows %v", names)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func visibilityAuthorized(ctx context.Context, w *world) error {
	c := rest.CopyConfig(w.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: "ann"}
	ann, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	if _, err := pending(ctx, ann, ofLocal); !apierrors.IsForbidden(err) {
		return fmt.Errorf("ann sees what she may not: %w", errors.Join(err, errors.New("it should be forbidden")))
	}
	if err := w.apply(ctx, "lab", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kueue-batch-user-role}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]`); err != nil {
		return err
	}
	if err := w.eventually(ctx, "ann's view", func(ctx context.Context) error { _, err := pending(ctx, ann, ofLocal); return err }); err != nil {
		return err
	}
	if _, err := pending(ctx, ann, ofCluster); !apierrors.IsForbidden(err) {
		return errors.New("ann sees the whole queue of the cluster")
	}
	return nil
}

// finishJob ends the pods of a job, and waits until the job has ended too.
func (w *world) finishJob(ctx context.Context, job string) error {
	if err := w.finish(ctx, "lab", job); err != nil {
		return err
	}
	return w.until(ctx, jobKey(job), condition("Complete", "True"))
}

func nextJobRuns(ctx context.Context, w *world) error {
	if err := w.finishJob(ctx, "first"); err != nil {
		return err
	}
	if err := w.workloadIs(ctx, "first", condition("Finished", "True")); err != nil {
		return err
	}
	if err := w.workloadIs(ctx, "second", condition("Admitted", "True")); err != nil {
		return err
	}
	return w.until(ctx, jobKey("second"), both(value("spec.suspend", false), value("status.ready", 1)))
}

func jobPreempts(ctx context.Context, w *world) error {
	if err := w.job(ctx, "third", ", kueue.x-k8s.io/priority-class: urgent"); err != nil {
		return err
	}
	if err := w.until(ctx, jobKey("third"), both(value("spec.suspend", false), value("status.ready", 1))); err != nil {
		return err
	}
	if err := w.workloadIs(ctx, "second", condition("Preempted", "True")); err != nil {
		return err
	}
	return w.until(ctx, jobKey("second"), value("spec.suspend", true))
}

func queueStops(ctx context.Context, w *world) error {
	queue := key{kueueVersion, "ClusterQueue", "lab"}
	stop := func(policy string) error {
		return w.change(ctx, queue, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, policy, "spec", "stopPolicy")
		})
	}
	if err := stop("HoldAndDrain"); err != nil {
		return err
	}
	if err := w.until(ctx, jobKey("third"), value("spec.suspend", true)); err != nil {
		return err
	}
	if err := w.until(ctx, queue, condition("Active", "False")); err != nil {
		return err
	}
	if err := stop("None"); err != nil {
		return err
	}
	if err := w.until(ctx, jobKey("third"), both(value("spec.suspend", false), value("status.ready", 1))); err != nil {
		return err
	}
	return w.finishJob(ctx, "third")
}

func podsGated(ctx context.Context, w *world) error {
	if err := w.until(ctx, jobKey("second"), value("status.ready", 1)); err != nil {
		return err
	}
	if err := w.apply(ctx, "lab", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {kueue.x-k8s.io/queue-name: lab}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 2}}}]}`); err != nil {
		return err
	}
	pods := func(is func(corev1.Pod) bool) error {
		return w.eventually(ctx, "pods of web", func(ctx context.Context) error {
			list, err := w.kube.CoreV1().Pods("lab").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			if err != nil {
				return err
			}
			for _, p := range list.Items {
				if len(list.Items) == 1 && is(p) {
					return nil
				}
				err = errors.Join(err, fmt.Errorf("%s is %s and has the gates %v", p.Name, p.Status.Phase, p.Spec.SchedulingGates))
			}
			return errors.Join(err, fmt.Errorf("there are %d", len(list.Items)))
		})
	}
	if err := pods(func(p corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) > 0 && strings.HasPrefix(p.Spec.SchedulingGates[0].Name, "kueue.x-k8s.io/")
	}); err != nil {
		return err
	}
	if err := w.finishJob(ctx, "second"); err != nil {
		return err
	}
	return pods(func(p corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) == 0 && p.Status.Phase == corev1.PodRunning
	})
}

func workloadGoes(ctx context.Context, w *world) error {
	u, err := w.workload(ctx, "second")
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	if err := w.kube.BatchV1().Jobs("lab").Delete(ctx, "second", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return err
	}
	return w.gone(ctx, key{kueueVersion, "Workload", "lab/" + u.GetName()})
}
