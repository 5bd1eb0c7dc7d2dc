package modes

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/access/authz/node"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podrefs"
)

// nodeAuthorizer is the mode Node, its graph and the feed of the graph.
type nodeAuthorizer struct {
	*feed
	*node.Authorizer
	graph *node.Graph
}

func newNodeAuthorizer(m *node.Metrics, changes *authz.Changes, policy *bootstrap.Objects, gates features.Set) (*nodeAuthorizer, error) {
	rules, err := nodeRules(policy)
	if err != nil {
		return nil, err
	}
	g := node.NewGraph(changes)
	clusterWide := func(remove func(rev int64, name string)) func(rev int64, namespace, name string) {
		return func(rev int64, _, name string) { remove(rev, name) }
	}
	measured := func(what string, s source) source {
		set, remove := s.set, s.remove
		s.set = func(rev int64, o metav1.Object) { m.Measure("Add"+what, func() { set(rev, o) }) }
		s.remove = func(rev int64, namespace, name string) {
			m.Measure("Delete"+what, func() { remove(rev, namespace, name) })
		}
		return s
	}
	sources := []source{
		measured("Pod", source{resource: schema.GroupResource{Resource: "pods"}, set: func(rev int64, o metav1.Object) {
			pod := o.(*corev1.Pod)
			g.SetPod(rev, pod.Namespace, pod.Name, pod.Spec.NodeName, usesOf(pod))
		}, remove: g.DeletePod, part: accessPart}),
		measured("PV", source{resource: schema.GroupResource{Resource: "persistentvolumes"}, set: func(rev int64, o metav1.Object) {
			g.SetVolume(rev, o.(*corev1.PersistentVolume))
		}, remove: clusterWide(g.DeleteVolume)}),
		measured("VolumeAttachment", source{resource: schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, set: func(rev int64, o metav1.Object) {
			g.SetAttachment(rev, o.(*storagev1.VolumeAttachment).Name, o.(*storagev1.VolumeAttachment).Spec.NodeName)
		}, remove: clusterWide(g.DeleteAttachment)}),
		measured("ResourceSlice", source{resource: schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}, set: func(rev int64, o metav1.Object) {
			s, of := o.(*resourcev1.ResourceSlice), ""
			if s.Spec.NodeName != nil {
				of = *s.Spec.NodeName
			}
			g.SetSlice(rev, s.Name, of)
		}, remove: clusterWide(g.DeleteSlice)}),
	}
	requests := gates.Enabled(features.PodCertificateRequest)
	if requests {
		sources = append(sources, measured("PodCertificateRequest", source{resource: schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, set: func(rev int64, o metav1.Object) {
			g.SetPodCertificate(rev, o.GetNamespace(), o.GetName(), string(o.(*certificatesv1beta1.PodCertificateRequest).Spec.NodeName))
		}, remove: g.DeletePodCertificate}))
	}
	f := newFeed(sources...)
	a := node.New(g, f.ready, rules)
	a.PodCertificates, a.VolumeHealth = requests, gates.Enabled(features.CSIVolumeHealth)
	a.NoAccounts = !requests && gates.Off(features.KubeletServiceAccountTokenForCredentialProviders)
	return &nodeAuthorizer{feed: f, Authorizer: a, graph: g}, nil
}

// nodeRules returns the rules of the role system:node from the bootstrap policy. An administrator's changes to the role
// affect only RBAC.
func nodeRules(policy *bootstrap.Objects) ([]rbacv1.PolicyRule, error) {
	for _, r := range policy.ClusterRoles {
		if r.Name == "system:node" {
			return r.Rules, nil
		}
	}
	return nil, fmt.Errorf("the bootstrap policy has no role system:node")
}

// usesOf returns the objects to which a pod gives its node access. A mirror pod, which the node itself creates, gives
// none.
func usesOf(pod *corev1.Pod) []node.Ref {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror || pod.Spec.NodeName == "" {
		return nil
	}
	seen := map[node.Ref]bool{}
	var out []node.Ref
	add := func(kind node.Kind, name string) {
		r := node.Ref{Kind: kind, Namespace: pod.Namespace, Name: name}
		if name != "" && !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	add(node.ServiceAccount, pod.Spec.ServiceAccountName)
	for name := range podrefs.Secrets(&pod.Spec) {
		add(node.Secret, name)
	}
	for name := range podrefs.ConfigMaps(&pod.Spec) {
		add(node.ConfigMap, name)
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			add(node.Claim, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			add(node.Claim, pod.Name+"-"+v.Name)
		}
	}
	for name := range resourceClaims(pod) {
		add(node.ResourceClaim, name)
	}
	return out
}

// resourceClaims yields the names of a pod's resource claims: those it names, those created for it from templates, and
// the one for its extended resources.
func resourceClaims(pod *corev1.Pod) func(yield func(string) bool) {
	made := map[string]string{}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			made[s.Name] = *s.ResourceClaimName
		}
	}
	return func(yield func(string) bool) {
		for _, c := range pod.Spec.ResourceClaims {
			name := ""
			switch {
			case c.ResourceClaimName != nil:
				name = *c.ResourceClaimName
			case c.ResourceClaimTemplateName != nil:
				name = made[c.Name]
			}
			if !yield(name) {
				return
			}
		}
		if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
			yield(s.ResourceClaimName)
		}
	}
}
