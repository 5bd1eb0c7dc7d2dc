package findings

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/store"
)

// kubeletPatience is how long a kubelet may take until it reports a pod.
const kubeletPatience = 10 * time.Second

// workers are the programs that act on kinds.
const (
	manager   = "kube-controller-manager"
	scheduler = "kube-scheduler"
)

var (
	pods   = schema.GroupResource{Resource: "pods"}
	worked = []schema.GroupResource{
		{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "replicasets"}, {Group: "apps", Resource: "statefulsets"}, {Group: "apps", Resource: "daemonsets"},
		{Group: "batch", Resource: "jobs"}, pods,
	}
)

// workerOf returns the program that acts on a kind first.
func workerOf(gr schema.GroupResource) string {
	switch {
	case gr == pods:
		return scheduler
	case slices.Contains(worked, gr):
		return manager
	}
	return ""
}

// waiting are objects that nobody works on.
type waiting struct {
	objects []v1alpha1.ObjectReference
	oldest  time.Time
}

func (w *waiting) add(o v1alpha1.ObjectReference, since time.Time) {
	w.objects = append(w.objects, o)
	if w.oldest.IsZero() || since.Before(w.oldest) {
		w.oldest = since
	}
}

// workloads looks for objects that nothing works on: no controller manager, scheduler or kubelet.
func (l *look) workloads() {
	programs, nodes := map[string]*waiting{}, map[string]*waiting{}
	add := func(to map[string]*waiting, key string, o v1alpha1.ObjectReference, since time.Time) {
		if to[key] == nil {
			to[key] = &waiting{}
		}
		to[key].add(o, since)
	}
	for _, gr := range worked {
		for _, obj := range l.workloadsOf(gr) {
			o := v1alpha1.ObjectReference{Group: gr.Group, Resource: gr.Resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
			since := obj.GetCreationTimestamp().Time
			if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" {
				if since = boundAt(p); silent(p) && l.time.Sub(since) >= kubeletPatience {
					add(nodes, p.Spec.NodeName, o, since)
				}
				continue
			}
			if who := awaits(obj); who != "" && l.time.Sub(since) >= patience {
				add(programs, who, o, since)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		l.idleProgram(name, programs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		l.silentNode(name, nodes[name])
	}
}

// workloadsOf returns objects of a kind that may wait: those of its view if that is loaded, and else those that were made lately.
func (l *look) workloadsOf(gr schema.GroupResource) []engine.Object {
	ep, err := l.Objects.Endpoint(gr)
	if err != nil || ep.View() == nil {
		return nil
	}
	if _, loaded := ep.View().Len(); loaded {
		for o := range l.tally.made {
			if o.Group == gr.Group && o.Resource == gr.Resource {
				delete(l.tally.made, o)
			}
		}
		if gr == pods {
			return l.scan(gr, pending)
		}
		return l.scan(gr, allItems)
	}
	var out []engine.Object
	const most = 8
	for _, o := range oldest(l.tally.made) {
		if o.Group != gr.Group || o.Resource != gr.Resource || len(out) == most {
			continue
		}
		_, i, gone := l.item(o)
		if gone {
			delete(l.tally.made, o)
		}
		if i == nil {
			continue
		}
		switch obj, err := ep.Decode(l.ctx, i); {
		case err != nil:
		case !waits(obj):
			delete(l.tally.made, o)
		default:
			out = append(out, obj)
		}
	}
	return out
}

// waits says that an object waits for a program, or for the kubelet of its node.
func waits(obj engine.Object) bool {
	if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return silent(p)
	}
	return awaits(obj) != ""
}

// pending says that a stored pod may wait for somebody: its phase is Pending. Pods are many, so they are not decoded for that.
func pending(i *store.Item) bool { return bytes.Contains(i.Value(), []byte(corev1.PodPending)) }

// awaits returns the program that should have acted on an object and has not; "" if somebody has.
func awaits(obj engine.Object) string {
	behind := func(observed int64) string {
		if obj.GetDeletionTimestamp() == nil && observed < obj.GetGeneration() {
			return manager
		}
		return ""
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return behind(o.Status.ObservedGeneration)
	case *appsv1.ReplicaSet:
		return behind(o.Status.ObservedGeneration)
	case *appsv1.StatefulSet:
		return behind(o.Status.ObservedGeneration)
	case *appsv1.DaemonSet:
		return behind(o.Status.ObservedGeneration)
	case *batchv1.Job:
		if o.DeletionTimestamp == nil && o.Status.StartTime == nil && !ptr.Deref(o.Spec.Suspend, false) && ptr.Deref(o.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName {
			return manager
		}
	case *corev1.Pod:
		judged := slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if o.DeletionTimestamp == nil && o.Status.Phase == corev1.PodPending && !judged && len(o.Spec.SchedulingGates) == 0 {
			if o.Spec.SchedulerName == corev1.DefaultSchedulerName {
				return scheduler
			}
			return o.Spec.SchedulerName
		}
	}
	return ""
}

// silent says that no kubelet has reported a pod that has a node.
func silent(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil
}

func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

// holds says whether a lease is held, and when it was renewed last.
func (l *look) holds(namespace, name string) (bool, time.Time) {
	obj, err := l.Objects.Seen(l.ctx, schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, namespace, name)
	if err != nil {
		return false, time.Time{}
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil {
		return false, time.Time{}
	}
	at := lease.Spec.RenewTime.Time
	return l.time.Sub(at) < time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 40))*time.Second, at
}

// idleProgram tells of objects on which a program does not work.
func (l *look) idleProgram(name string, w *waiting) {
	runs, renewed := l.holds(metav1.NamespaceSystem, name)
	if runs && l.time.Sub(w.oldest) < patienceWithLiving {
		return
	}
	f := l.find("NobodyWorks", v1alpha1.SeverityWarning, name, "%s does not work on %s", name, kindsOf(w.objects))
	f.Cause = "no " + name + " runs: its lease in kube-system "
	switch {
	case runs:
		f.Cause = name + " runs, but has not come to them"
	case renewed.IsZero():
		f.Cause += "was never taken"
	default:
		f.Cause += "was renewed last at " + renewed.UTC().Format(time.RFC3339)
	}
	f.Impact = "nothing happens to them"
	l.waitingFor(f, w)
	f.run("kubectl get lease -n kube-system %s", name)
}

// silentNode tells of pods whose kubelet does not report them.
func (l *look) silentNode(node string, w *waiting) {
	runs, renewed := l.holds(corev1.NamespaceNodeLease, node)
	if runs && l.time.Sub(w.oldest) < patienceWithLiving {
		return
	}
	f := l.find("NodeSilent", v1alpha1.SeverityWarning, node, "no kubelet of node %s starts %s", node, kindsOf(w.objects))
	f.Cause = "the kubelet does not run, or cannot reach this server: its lease "
	if renewed.IsZero() {
		f.Cause += "was never taken"
	} else {
		f.Cause += "was renewed last at " + renewed.UTC().Format(time.RFC3339)
	}
	f.Impact = "the pods do not run"
	l.waitingFor(f, w)
	f.run("kubectl get node %s -o wide", node)
	f.run("kubectl get lease -n %s %s", corev1.NamespaceNodeLease, node)
}

// waitingFor names some of the objects, to those who may get them.
func (l *look) waitingFor(f *finding, w *waiting) {
	f.Since.Time, f.touched = w.oldest, w.objects[:min(len(w.objects), mostObjects)]
	for n := range w.objects[:min(len(w.objects), 5)] {
		f.facts = append(f.facts, told{l.called(w.objects[n]) + " waits", &w.objects[n]})
	}
}

// kindsOf counts objects by resource.
func kindsOf(all []v1alpha1.ObjectReference) string {
	counts := map[string]int{}
	for _, o := range all {
		counts[strings.TrimSuffix(o.Resource, "s")]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, plural(counts[kind], kind))
	}
	return fmt.Sprint(listed(parts))
}
