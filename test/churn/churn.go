// Package churn changes a cluster in all ways that bring controllers to work: Deployments roll and scale, Jobs run, namespaces are deleted
// while their pods start, definitions come and go with their objects. Each change is done when its end can be seen, across servers that
// are away for a while.
package churn

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	deployments, replicas = 10, 15
	patience              = 3 * time.Minute // for each change, and for each answer
)

// Cluster is a cluster that changes.
type Cluster struct {
	K       kubernetes.Interface
	objects dynamic.Interface
	crds    dynamic.ResourceInterface
	fault   func(string) // told what does not come to pass

	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

// New returns a cluster behind a server; fault is told what does not come to pass.
func New(config *rest.Config, fault func(string)) (*Cluster, error) {
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{K: k, objects: objects, fault: fault, counts: map[string]int{},
		crds: objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})}, nil
}

// Counts are how often each change was done.
func (c *Cluster) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

func (c *Cluster) did(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// again does something until it succeeds: the server may be away, and may have done it before it went. It gives up with a fault when
// that lasts.
func (c *Cluster) again(what string, done func(error) bool, f func(ctx context.Context) error) {
	until := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := f(ctx)
		cancel()
		if err == nil || done != nil && done(err) {
			return
		}
		if time.Now().After(until) {
			c.fault(fmt.Sprintf("%s: for three minutes: %v", what, err))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Template is the template of pods of one container, with labels.
func Template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image:1"}}}}
}

// JobTemplate is that of pods that come to an end.
func JobTemplate(app string) corev1.PodTemplateSpec {
	p := Template(map[string]string{"app": app})
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	return p
}

// Definition defines Gadgets in a group.
func Definition(group string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + group}, "spec": map[string]any{"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}
}

func deployment(name string, size int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: Template(labels)}}
}

// Deployments makes the Deployments that roll.
func (c *Cluster) Deployments() {
	for n := range deployments {
		c.again("create a deployment", apierrors.IsAlreadyExists, func(ctx context.Context) error {
			_, err := c.K.AppsV1().Deployments("default").Create(ctx, deployment(fmt.Sprintf("d%02d", n), replicas), metav1.CreateOptions{})
			return err
		})
	}
}

// Even gives all Deployments as many replicas as they had in the beginning.
func (c *Cluster) Even() {
	for n := range deployments {
		c.again("scale", nil, func(ctx context.Context) error {
			_, err := c.K.AppsV1().Deployments("default").Patch(ctx, fmt.Sprintf("d%02d", n), types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
			return err
		})
	}
}

// Roll rolls and scales a Deployment.
func (c *Cluster) Roll(ctx context.Context, round int) {
	c.again("roll", nil, func(ctx context.Context) error {
		_, err := c.K.AppsV1().Deployments("default").Patch(ctx, fmt.Sprintf("d%02d", round%deployments), types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, replicas-round/deployments%2*5, round), metav1.PatchOptions{})
		return err
	})
	c.did("rolls")
	Pause(ctx, 2*time.Second)
}

// Job runs a Job, which is gone some seconds after its end.
func (c *Cluster) Job(_ context.Context, round int) {
	name := fmt.Sprintf("job-%d", round)
	c.again("create a job", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.K.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](4), Parallelism: ptr.To[int32](2), TTLSecondsAfterFinished: ptr.To[int32](2), Template: JobTemplate(name)}}, metav1.CreateOptions{})
		return err
	})
	c.again("a job ends", apierrors.IsNotFound, func(ctx context.Context) error {
		j, err := c.K.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && j.Status.CompletionTime == nil {
			err = fmt.Errorf("job %s: %+v", name, j.Status)
		}
		return err
	})
	c.did("jobs")
}

// Namespace fills a namespace, and deletes it while its pods start.
func (c *Cluster) Namespace(ctx context.Context, round int) {
	name := fmt.Sprintf("ns-%d", round)
	c.again("create a namespace", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.K.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
	c.again("create in a namespace", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.K.AppsV1().Deployments(name).Create(ctx, deployment("a", 5), metav1.CreateOptions{})
		return err
	})
	c.again("create a service", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.K.CoreV1().Services(name).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "a"}, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		return err
	})
	Pause(ctx, time.Duration(round%4)*time.Second)
	c.again("a namespace goes", apierrors.IsNotFound, func(ctx context.Context) error {
		if err := c.K.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		ns, err := c.K.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("namespace %s: %+v", name, ns.Status)
		}
		return err
	})
	c.did("namespaces")
}

// Definition makes a definition and objects of it, and removes it with them.
func (c *Cluster) Definition(ctx context.Context, round int) {
	group := fmt.Sprintf("g%d.example.org", round)
	d := Definition(group)
	c.again("create a definition", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.crds.Create(ctx, d.DeepCopy(), metav1.CreateOptions{})
		return err
	})
	of := c.objects.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}).Namespace("default")
	for n := range 5 {
		c.again("create a custom resource", apierrors.IsAlreadyExists, func(ctx context.Context) error {
			_, err := of.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget",
				"metadata": map[string]any{"name": fmt.Sprintf("x%d", n)}, "size": int64(n)}}, metav1.CreateOptions{})
			return err
		})
	}
	Pause(ctx, time.Duration(round%3)*time.Second)
	c.again("a definition goes", apierrors.IsNotFound, func(ctx context.Context) error {
		if err := c.crds.Delete(ctx, d.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		d, err := c.crds.Get(ctx, d.GetName(), metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("definition %s: %v", d.GetName(), d.Object["status"])
		}
		return err
	})
	c.did("definitions")
}

// Restless says what is not as it was asked for; empty: everything has come to rest.
func (c *Cluster) Restless(ctx context.Context) string {
	all, err := c.K.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	want, rolling := 0, 0
	for _, d := range all.Items {
		n := *d.Spec.Replicas
		want += int(n)
		if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Sprintf("deployment %s/%s: %+v", d.Namespace, d.Name, s)
		}
		if d.Namespace == "default" {
			rolling++
		}
	}
	pods, err := c.K.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	jobs, err := c.K.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	spaces, err := c.K.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	crds, err := c.crds.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	gone := 0
	for _, n := range spaces.Items {
		if strings.HasPrefix(n.Name, "ns-") {
			gone++
		}
	}
	for _, d := range crds.Items {
		if strings.HasPrefix(d.GetName(), "gadgets.") {
			gone++
		}
	}
	if rolling != deployments || len(pods.Items) != want || len(jobs.Items) != 0 || gone != 0 {
		return fmt.Sprintf("%d deployments, %d pods of %d, %d jobs, %d namespaces and definitions that should be gone", rolling, len(pods.Items), want, len(jobs.Items), gone)
	}
	return ""
}

// Pause waits for a while, or until the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
