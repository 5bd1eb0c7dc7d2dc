package controllers

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// protector keeps a finalizer on the objects of one kind, and removes it from an
// object that is being deleted once it is not in use.
type protector[T engine.Object] struct {
	endpoint  *engine.Endpoint
	objects   *store.Index[T]
	client    *inprocess.Client
	finalizer string
	// removesOnly: something else puts the finalizer on objects.
	removesOnly bool
	used        func(ctx context.Context, obj T) (bool, error)
}

func (p *protector[T]) look(ctx context.Context, key string) error {
	obj, ok, err := get(ctx, p.objects, key)
	if !ok {
		return err
	}
	has := slices.Contains(obj.GetFinalizers(), p.finalizer)
	switch {
	case obj.GetDeletionTimestamp() == nil && !has && !p.removesOnly:
		return p.edit(ctx, obj, func(f []string) []string { return append(f, p.finalizer) })
	case obj.GetDeletionTimestamp() == nil || !has:
		return nil
	}
	used, err := p.used(ctx, obj)
	if used || err != nil {
		return err
	}
	return p.edit(ctx, obj, func(f []string) []string {
		return slices.DeleteFunc(f, func(f string) bool { return f == p.finalizer })
	})
}

// edit changes the finalizers of an object as it was seen: whether it is in use depends on what it says.
func (p *protector[T]) edit(ctx context.Context, obj T, change func([]string) []string) error {
	_, err := inprocess.Edit(ctx, p.client, at(p.endpoint, ""), request.Unchanged(obj), func(obj T) error {
		obj.SetFinalizers(change(obj.GetFinalizers()))
		return nil
	})
	return ignoreMissing(err)
}

// again queues the objects that wait to be let go.
func (p *protector[T]) again(ctx context.Context, q *queue.Queue) {
	all, err := p.objects.Objects(ctx, "")
	if err != nil {
		return // the server stops
	}
	for _, obj := range all {
		if obj.GetDeletionTimestamp() != nil {
			q.Add(strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"))
		}
	}
}

// changed names the objects that may have to be looked at.
func (p *protector[T]) changed(c store.Change[T]) (string, bool) {
	if c.Gone || c.Err != nil {
		return "", false
	}
	deleted, has := c.Now.GetDeletionTimestamp() != nil, slices.Contains(c.Now.GetFinalizers(), p.finalizer)
	return c.Key, deleted == has && (deleted || !p.removesOnly)
}

// runVolumeProtection keeps PersistentVolumes until no claim is bound to them.
func runVolumeProtection(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(corev1.Resource("persistentvolumes"))
	p := &protector[*corev1.PersistentVolume]{
		endpoint: ep, objects: engine.IndexOf[*corev1.PersistentVolume](ep), client: cl, finalizer: "kubernetes.io/pv-protection",
		used: func(_ context.Context, v *corev1.PersistentVolume) (bool, error) {
			return v.Status.Phase == corev1.VolumeBound, nil
		},
	}
	c.work(ctx, "pvprotection", once(p.look), follow(p.objects, p.changed))
}

// runClaimProtection keeps PersistentVolumeClaims until no pod uses them.
func runClaimProtection(ctx context.Context, c Config, cl *inprocess.Client) {
	ep, pods := c.endpoint(corev1.Resource("persistentvolumeclaims")), engine.IndexOf[*corev1.Pod](c.endpoint(corev1.Resource("pods")))
	waiting := make(chan struct{}, 1) // a claim waits for pods
	p := &protector[*corev1.PersistentVolumeClaim]{
		endpoint: ep, objects: engine.IndexOf[*corev1.PersistentVolumeClaim](ep), client: cl, finalizer: "kubernetes.io/pvc-protection",
	}
	p.used = func(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
		if err := c.Store.Fresh(ctx); err != nil {
			return false, err
		}
		all, err := pods.Objects(ctx, claim.Namespace+"/")
		used := slices.ContainsFunc(all, func(pod *corev1.Pod) bool { return usesClaim(pod, claim) })
		if used {
			need(waiting)
		}
		return used, err
	}
	c.work(ctx, "pvcprotection", once(p.look), follow(p.objects, p.changed), whenNeeded(waiting, podsOfClaims(pods), p.again))
}

// whenNeeded is a source that begins once need was called for the channel, so that nothing is loaded for what nobody
// waits for. The channel has room for one value. Follow tells only of what goes after it has begun, so again queues what waits
// by then: what it waited for may have gone in between.
func whenNeeded(needed <-chan struct{}, follow func(ctx context.Context, q *queue.Queue, caught func(rev int64)), again func(ctx context.Context, q *queue.Queue)) source {
	return func(ctx context.Context, q *queue.Queue, begun, ended func()) {
		begun()
		go func() {
			defer ended()
			select {
			case <-needed:
			case <-ctx.Done():
				return
			}
			var caught sync.Once
			follow(ctx, q, func(int64) { caught.Do(func() { again(ctx, q) }) })
		}()
	}
}

// need lets the sources begin that wait for the channel.
func need(needed chan<- struct{}) {
	select {
	case needed <- struct{}{}:
	default:
	}
}

// podsOfClaims queues the claims of pods that end.
func podsOfClaims(pods *store.Index[*corev1.Pod]) func(context.Context, *queue.Queue, func(int64)) {
	return func(ctx context.Context, q *queue.Queue, caught func(int64)) {
		pods.Follow(ctx, func(c store.Change[*corev1.Pod]) {
			pod := c.Now
			if c.Gone {
				pod, _ = c.Was(ctx)
			}
			if pod == nil || !c.Gone && !ended(pod) {
				return
			}
			for i := range pod.Spec.Volumes {
				if name := claimName(pod, &pod.Spec.Volumes[i]); name != "" {
					q.Add(c.Namespace() + "/" + name)
				}
			}
		}, caught)
	}
}

// runAttributesClassProtection keeps VolumeAttributesClasses until no volume or claim names them.
func runAttributesClassProtection(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattributesclasses"})
	volumes := engine.IndexOf[*corev1.PersistentVolume](c.endpoint(corev1.Resource("persistentvolumes")))
	claims := engine.IndexOf[*corev1.PersistentVolumeClaim](c.endpoint(corev1.Resource("persistentvolumeclaims")))
	waiting := make(chan struct{}, 2) // a class waits for volumes or claims: each of the sources takes one value
	p := &protector[*storagev1.VolumeAttributesClass]{
		endpoint: ep, objects: engine.IndexOf[*storagev1.VolumeAttributesClass](ep), client: cl, finalizer: "kubernetes.io/vac-protection",
	}
	p.used = func(ctx context.Context, class *storagev1.VolumeAttributesClass) (bool, error) {
		if err := c.Store.Fresh(ctx); err != nil {
			return false, err
		}
		allVolumes, err := volumes.Objects(ctx, "")
		if err != nil {
			return false, err
		}
		allClaims, err := claims.Objects(ctx, "")
		used := slices.ContainsFunc(allVolumes, func(v *corev1.PersistentVolume) bool { return slices.Contains(classesOfVolume(v), class.Name) }) ||
			slices.ContainsFunc(allClaims, func(v *corev1.PersistentVolumeClaim) bool { return slices.Contains(classesOfClaim(v), class.Name) })
		if used {
			need(waiting)
			need(waiting)
		}
		return used, err
	}
	c.work(ctx, "vacprotection", once(p.look), follow(p.objects, p.changed),
		whenNeeded(waiting, dropped(volumes, classesOfVolume), p.again), whenNeeded(waiting, dropped(claims, classesOfClaim), p.again))
}

// dropped queues the names that an object no longer has.
func dropped[T engine.Object](x *store.Index[T], names func(T) []string) func(context.Context, *queue.Queue, func(int64)) {
	return func(ctx context.Context, q *queue.Queue, caught func(int64)) {
		x.Follow(ctx, func(c store.Change[T]) {
			was, ok := c.Was(ctx)
			if !ok {
				return
			}
			for _, name := range names(was) {
				if c.Gone || c.Err == nil && !slices.Contains(names(c.Now), name) {
					q.Add(name)
				}
			}
		}, caught)
	}
}

func classesOfVolume(v *corev1.PersistentVolume) []string {
	return notEmpty(v.Spec.VolumeAttributesClassName)
}

func classesOfClaim(c *corev1.PersistentVolumeClaim) []string {
	out := notEmpty(c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName)
	if s := c.Status.ModifyVolumeStatus; s != nil {
		out = append(out, notEmpty(&s.TargetVolumeAttributesClassName)...)
	}
	return out
}

func notEmpty(names ...*string) []string {
	var out []string
	for _, n := range names {
		if n != nil && *n != "" {
			out = append(out, *n)
		}
	}
	return out
}

// claimName returns the claim of a pod's volume; "" if it has none.
func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// usesClaim says that a pod on a node uses a claim. Nodes start no pod whose
// claim is being deleted, so one without a node does not.
func usesClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if claimName(pod, &v) != claim.Name {
			return false
		}
		return v.PersistentVolumeClaim != nil || !ended(pod) && metav1.IsControlledBy(claim, pod)
	})
}

// ended says that a pod is being deleted and that its node no longer runs it, or
// never did.
func ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
