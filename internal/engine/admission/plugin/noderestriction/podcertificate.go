package noderestriction

import (
	"context"
	"fmt"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// admitPodCertificate lets a node request certificates for its pods, in the name of their service accounts and from the
// signers that they want. What this server may not have seen yet is not forbidden, since the node's next attempt may be right.
func (p *plugin) admitPodCertificate(ctx context.Context, a *admission.Attributes, node string) error {
	if a.Operation != admission.Create {
		return admission.Forbiddenf(a, "unexpected operation %v", a.Operation)
	}
	if a.Subresource != "" {
		return admission.Forbiddenf(a, "unexpected subresource %v", a.Subresource)
	}
	r, ok := a.Object.(*certificatesv1beta1.PodCertificateRequest)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	s := &r.Spec
	if string(s.NodeName) != node {
		return admission.Forbiddenf(a, "PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, node)
	}
	if _, err := named[*corev1.Node](ctx, p, a, admission.Nodes, "node", "", node, s.NodeUID); err != nil {
		return err
	}
	pod, err := named[*corev1.Pod](ctx, p, a, admission.Pods, "pod", a.Namespace, s.PodName, s.PodUID)
	if err != nil {
		return err
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.Spec.NodeName != node:
		return admission.Forbiddenf(a, "pod %q is not running on node %q named in the PodCertificateRequest", a.Namespace+"/"+pod.Name, node)
	case mirror:
		return admission.Forbiddenf(a, "pod %q is a mirror pod", a.Namespace+"/"+pod.Name)
	case pod.Spec.ServiceAccountName != s.ServiceAccountName:
		return admission.Forbiddenf(a, "PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			a.Namespace+"/"+pod.Name, s.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	if _, err := named[*corev1.ServiceAccount](ctx, p, a, admission.ServiceAccounts, "service account", a.Namespace, s.ServiceAccountName, s.ServiceAccountUID); err != nil {
		return err
	}
	return p.admitSigner(ctx, a, pod, s)
}

// named returns an object that a request for a certificate names by its name and UID.
func named[T admission.Object](ctx context.Context, p *plugin, a *admission.Attributes, gr schema.GroupResource, what, namespace, name string, uid types.UID) (T, error) {
	id := strings.TrimPrefix(namespace+"/"+name, "/")
	obj, err := admission.Seen[T](ctx, p.objects, gr, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return obj, fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %v", what, id, err) // not wrapped: the request itself is found
	case err != nil:
		return obj, admission.Forbidden(a, fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", what, id, err))
	case obj.GetUID() != uid:
		return obj, fmt.Errorf("PodCertificateRequest names UID %q of %s %q, which has %q", uid, what, id, obj.GetUID())
	}
	return obj, nil
}

// admitSigner requires that the pod has a volume with a certificate of the signer, or that the node is authorized for the signer
// by name. Names of resources have no slashes.
func (p *plugin) admitSigner(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, s *certificatesv1beta1.PodCertificateRequestSpec) error {
	for i := range pod.Spec.Volumes {
		volume := pod.Spec.Volumes[i].Projected
		if volume == nil {
			continue
		}
		for j := range volume.Sources {
			if c := volume.Sources[j].PodCertificate; c != nil && c.SignerName == s.SignerName {
				return nil
			}
		}
	}
	allowed, err := p.mayAct(ctx, a, "request-serviceaccounts-podcertificate-signer", strings.ReplaceAll(s.SignerName, "/", ":"), s.ServiceAccountName)
	switch {
	case allowed:
		return nil
	case err != nil:
		return admission.Forbidden(a, fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w", a.User.GetName(), s.SignerName, err))
	}
	return admission.Forbiddenf(a, "pod %q does not mount a podCertificate projected volume for signer %q", a.Namespace+"/"+pod.Name, s.SignerName)
}
