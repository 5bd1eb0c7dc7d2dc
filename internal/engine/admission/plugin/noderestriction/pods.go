package noderestriction

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/podrefs"
)

// admitPods lets a node create mirror pods of its own, and report on, evict
// and delete the pods that are bound to it.
func (p *plugin) admitPods(ctx context.Context, a *admission.Attributes, node string) error {
	switch a.Subresource {
	case "":
		switch a.Operation {
		case admission.Create:
			return p.admitMirror(ctx, a, node)
		case admission.Delete:
			return p.admitOwn(ctx, a, node, a.Name, "node %q can only delete pods with spec.nodeName set to itself")
		}
		return admission.Forbiddenf(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.Operation, node)
	case "status":
		return admitStatus(a, node)
	case "eviction":
		return p.admitEviction(ctx, a, node)
	}
	return admission.Forbiddenf(a, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Subresource)
}

// admitOwn requires a pod to be bound to the node; refusal is what the refused are told, of the node.
func (p *plugin) admitOwn(ctx context.Context, a *admission.Attributes, node, name, refusal string) error {
	pod, ok := a.OldObject.(*corev1.Pod)
	if !ok {
		var err error
		pod, err = admission.Seen[*corev1.Pod](ctx, p.objects, admission.Pods, a.Namespace, name)
		if apierrors.IsNotFound(err) {
			return err
		}
		if err != nil {
			return admission.Forbidden(a, err)
		}
	}
	if pod.Spec.NodeName != node {
		return admission.Forbiddenf(a, refusal, node)
	}
	return nil
}

func (p *plugin) admitEviction(ctx context.Context, a *admission.Attributes, node string) error {
	if a.Operation != admission.Create {
		return admission.Forbiddenf(a, "unexpected operation %s", a.Operation)
	}
	eviction, ok := a.Object.(*policyv1.Eviction)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	name := a.Name
	if name == "" {
		name = eviction.Name
	}
	if name == "" {
		return admission.Forbiddenf(a, "could not determine pod from request data")
	}
	return p.admitOwn(ctx, a, node, name, "node %s can only evict pods with spec.nodeName set to itself")
}

// admitMirror requires a mirror pod, which the node already runs from its own
// files. It must not refer to API objects.
func (p *plugin) admitMirror(ctx context.Context, a *admission.Attributes, node string) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	if _, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; !ok {
		return admission.Forbiddenf(a, "pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return admission.Forbiddenf(a, "node %q can only create pods with spec.nodeName set to itself", node)
	}
	if err := p.admitOwner(ctx, a, node, pod); err != nil {
		return err
	}
	what, err := podrefs.Any(&pod.Spec)
	switch {
	case err != nil:
		return admission.Forbidden(a, fmt.Errorf("error checking mirror pod for API references: %w", err))
	case what != "":
		return admission.Forbiddenf(a, "node %q can not create pods that reference %s", node, what)
	}
	return nil
}

// admitOwner requires the node to be the pod's only owner.
func (p *plugin) admitOwner(ctx context.Context, a *admission.Attributes, node string, pod *corev1.Pod) error {
	if len(pod.OwnerReferences) != 1 {
		return admission.Forbiddenf(a, "node %q can only create pods with a single owner reference set to itself", node)
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return admission.Forbiddenf(a, "node %q can only create pods with an owner reference set to itself", node)
	case owner.Controller == nil || !*owner.Controller:
		return admission.Forbiddenf(a, "node %q can only create pods with a controller owner reference set to itself", node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return admission.Forbiddenf(a, "node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	obj, err := admission.Seen[*corev1.Node](ctx, p.objects, admission.Nodes, "", node)
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return admission.Forbiddenf(a, "error looking up node %s to verify uid: %v", node, err)
	case owner.UID != obj.UID:
		return admission.Forbiddenf(a, "node %s UID mismatch: expected %s got %s", node, owner.UID, obj.UID)
	}
	return nil
}

// admitStatus lets a node report on its pods. A node may not change labels and
// resource claims through a status.
func admitStatus(a *admission.Attributes, node string) error {
	if a.Operation != admission.Update {
		return admission.Forbiddenf(a, "unexpected operation %q", a.Operation)
	}
	pod, ok := a.Object.(*corev1.Pod)
	old, okOld := a.OldObject.(*corev1.Pod)
	switch {
	case !ok || !okOld:
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	case old.Spec.NodeName != node:
		return admission.Forbiddenf(a, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !maps.Equal(old.Labels, pod.Labels):
		return admission.Forbiddenf(a, "node %q cannot update labels through pod status", node)
	case !slices.EqualFunc(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses, sameClaim):
		return admission.Forbiddenf(a, "node %q cannot update resource claim statuses", node)
	case !sameExtendedClaim(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return admission.Forbiddenf(a, "node %q cannot update extended resource claim status", node)
	}
	return nil
}

func sameClaim(a, b corev1.PodResourceClaimStatus) bool {
	if a.ResourceClaimName == nil || b.ResourceClaimName == nil {
		return a.Name == b.Name && a.ResourceClaimName == b.ResourceClaimName
	}
	return a.Name == b.Name && *a.ResourceClaimName == *b.ResourceClaimName
}

func sameExtendedClaim(a, b *corev1.PodExtendedResourceClaimStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResourceClaimName == b.ResourceClaimName && slices.Equal(a.RequestMappings, b.RequestMappings)
}
