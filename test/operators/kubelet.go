//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/test/machine"
)

// nodeCount is how many nodes there are. Some operators want their replicas on different ones.
const nodeCount = 3

// nodes are the kubelets of all nodes. A pod with a container of an image that is built here is a process with a network of its own; of all
// other pods they say that they run.
type nodes struct {
	l        machine.Layout
	operator *operator
	client   kubernetes.Interface

	mu   sync.Mutex
	pods map[types.UID]context.CancelFunc // that run; guarded by mu
	next int                              // the number of the next pod; guarded by mu
	wg   sync.WaitGroup
}

// run registers the nodes, and runs pods until the context ends.
func (n *nodes) run(ctx context.Context) error {
	for i := range nodeCount {
		if err := n.register(ctx, machine.NodeName(i+1)); err != nil {
			return err
		}
	}
	factory := informers.NewSharedInformerFactory(n.client, 0)
	pods := factory.Core().V1().Pods().Informer()
	seen := func(o any) {
		if pod, is := o.(*corev1.Pod); is && pod.Spec.NodeName != "" {
			n.seen(ctx, pod)
		}
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, o any) { seen(o) }, DeleteFunc: n.gone}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			n.wg.Wait()
			return nil
		case <-beat.C:
			for i := range nodeCount {
				if err := n.renew(ctx, machine.NodeName(i+1)); err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "lease of a node: %v\n", err)
				}
			}
		}
	}
}

// register makes a node that is ready.
func (n *nodes) register(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}}}
	made, err := n.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("250")}
	made.Status.Allocatable = made.Status.Capacity
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: machine.Address}, {Type: corev1.NodeHostName, Address: name}}
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if _, err := n.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return n.renew(ctx, name)
}

// renew says that a node lives.
func (n *nodes) renew(ctx context.Context, name string) error {
	leases, now, seconds := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro(), int32(40)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err == nil {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// seen starts a pod that is new, and stops one that is to go.
func (n *nodes) seen(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	goes := pod.DeletionTimestamp != nil
	if stop := n.pods[pod.UID]; stop != nil {
		if goes {
			stop()
		}
		return
	}
	life, stop := context.WithCancel(ctx)
	n.pods[pod.UID] = stop
	if goes {
		stop()
	}
	n.next++
	r := &running{nodes: n, pod: pod.DeepCopy(), number: n.next}
	n.wg.Go(func() {
		if err := r.live(life); err != nil && life.Err() == nil {
			fmt.Fprintf(os.Stderr, "pod %s/%s: %v\n", pod.Namespace, pod.Name, err)
		}
		<-life.Done()
		if ctx.Err() == nil {
			n.remove(ctx, pod)
		}
	})
}

// gone stops a pod that was removed by force.
func (n *nodes) gone(o any) {
	pod, is := o.(*corev1.Pod)
	if unknown, stale := o.(cache.DeletedFinalStateUnknown); stale {
		pod, is = unknown.Obj.(*corev1.Pod)
	}
	if !is {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if stop := n.pods[pod.UID]; stop != nil {
		stop()
	}
}

// remove removes a pod whose processes have ended.
func (n *nodes) remove(ctx context.Context, pod *corev1.Pod) {
	now := int64(0)
	err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "removing pod %s/%s: %v\n", pod.Namespace, pod.Name, err)
	}
}

// report writes the status of a pod.
func (n *nodes) report(ctx context.Context, pod *corev1.Pod, ready bool, restarts int32) error {
	started := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: pod.Status.PodIP, PodIPs: []corev1.PodIP{{IP: pod.Status.PodIP}}, HostIP: pod.Status.HostIP,
		HostIPs: []corev1.HostIP{{IP: pod.Status.HostIP}}, StartTime: &started}
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		value := corev1.ConditionTrue
		if c == corev1.ContainersReady || c == corev1.PodReady {
			value = is
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c, Status: value, LastTransitionTime: started})
	}
	for _, c := range pod.Spec.InitContainers {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: started, FinishedAt: started}}
		status.InitContainerStatuses = append(status.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, State: ended})
	}
	for _, c := range pod.Spec.Containers {
		yes := true
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: ready, Started: &yes, RestartCount: restarts,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
