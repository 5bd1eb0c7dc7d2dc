package ownerreferences

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

// allowed are "verb resource/subresource namespace/name".
type allowed []string

func (l allowed) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	what := a.Verb + " " + a.Resource + "/" + a.Subresource + " " + a.Namespace + "/" + a.Name
	if slices.Contains(l, what) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "no: " + what, nil
}

func pod(owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", OwnerReferences: owners}}
}

func TestOwners(t *testing.T) {
	yes := true
	free := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "1"}
	blocking := free
	blocking.BlockOwnerDeletion = &yes
	unknown := blocking
	unknown.Kind = "X"
	for _, c := range []struct {
		name string
		may  allowed
		a    *admission.Attributes
		want string
	}{
		{"none", nil, at.Create(admission.Pods, pod()), ""},
		{"new object", nil, at.Create(admission.Pods, pod(free)), ""},
		{"new owner", nil, at.Update(admission.Pods, "", pod(free), pod()), "can't delete"},
		{"new owner, may delete", allowed{"delete pods/ ns/p"}, at.Update(admission.Pods, "", pod(free), pod()), ""},
		{"owner gone", nil, at.Update(admission.Pods, "", pod(), pod(free)), "can't delete"},
		{"unchanged", nil, at.Update(admission.Pods, "", pod(blocking), pod(blocking)), ""},
		{"status", nil, at.Update(admission.Pods, "status", pod(free), pod()), ""},
		{"blocking", nil, at.Create(admission.Pods, pod(blocking)), "can't set finalizers"},
		{"blocking, may finalize", allowed{"update replicasets/finalizers ns/r"}, at.Create(admission.Pods, pod(blocking)), ""},
		{"blocking, may finalize anything", allowed{"update */finalizers /*"}, at.Create(admission.Pods, pod(unknown)), ""},
		{"blocking nobody knows what", nil, at.Create(admission.Pods, pod(unknown)), "cannot find RESTMapping"},
		{"blocks now", allowed{"delete pods/ ns/p"}, at.Update(admission.Pods, "", pod(blocking), pod(free)), "can't set finalizers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(c.may, func(gvk schema.GroupVersionKind) ([]admission.Resource, error) {
				if gvk.Kind != "ReplicaSet" {
					return nil, errors.New("no such kind")
				}
				gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
				return []admission.Resource{{GroupVersionResource: gvr, Namespaced: true}}, nil
			})
			at.Check(t, at.Run(p, c.a), c.want)
		})
	}
}
