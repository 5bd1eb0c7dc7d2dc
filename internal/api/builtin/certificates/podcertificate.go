package certificates

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/request"
)

// podCertificateRequests has v1beta1 as its hub: it is stored in it, and v1 has lost the fields pkixPublicKey and
// proofOfPossession, which stored requests may have.
func podCertificateRequests(d Deps) *engine.Resource {
	versions := engine.Renamed(
		engine.VersionOf[certificatesv1beta1.PodCertificateRequest, certificatesv1beta1.PodCertificateRequestList](v1beta1, defaultPodCertificate),
		engine.VersionOf[certificatesv1.PodCertificateRequest, certificatesv1.PodCertificateRequestList](v1, nil),
	)
	slices.Reverse(versions) // v1 is preferred
	for _, v := range versions {
		v.FieldLabels = podCertificateLabels()
	}
	return &engine.Resource{
		Plural: "podcertificaterequests", Kind: "PodCertificateRequest",
		Namespaced: true,
		Hub:        v1beta1,
		Versions:   versions,
		Rules: engine.Typed[*certificatesv1beta1.PodCertificateRequest]{
			StatusApart:          true,
			Validate:             validatePodCertificate,
			ValidateUpdate:       validatePodCertificateUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*certificatesv1beta1.PodCertificateRequest]{
			ValidateUpdate:       d.validatePodCertificateStatus,
			NeedsResourceVersion: true,
		})},
		Fields: engine.Fields(func(r *certificatesv1beta1.PodCertificateRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName)}
		}),
		Trigger: "spec.nodeName", // every kubelet watches its own
		Table:   podCertificateTable(),
	}
}

// podCertificateLabels are the field labels of selectors. As in kube-apiserver, metadata.namespace is none of them.
func podCertificateLabels() map[string]string {
	return map[string]string{"spec.signerName": "spec.signerName", "spec.podName": "spec.podName", "spec.nodeName": "spec.nodeName"}
}

func defaultPodCertificate(r *certificatesv1beta1.PodCertificateRequest) {
	rules.DefaultPtr(&r.Spec.MaxExpirationSeconds, 24*60*60)
}

// validatePodCertificateUpdate allows changes of metadata only.
func validatePodCertificateUpdate(_ context.Context, r, old *certificatesv1beta1.PodCertificateRequest) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)
	return append(errs, rules.Immutable(r.Spec, old.Spec, field.NewPath("spec"))...)
}

// validatePodCertificateStatus also requires the right to sign for the signer, once what would be signed is valid.
func (d Deps) validatePodCertificateStatus(ctx context.Context, r, old *certificatesv1beta1.PodCertificateRequest) field.ErrorList {
	errs := podCertificateStatus(r, old, d.Now())
	signer := old.Spec.SignerName
	if len(errs) > 0 || apiequality.Semantic.DeepEqual(r.Status, old.Status) || d.MaySign(ctx, signer) {
		return errs
	}
	name := ""
	if u := request.UserFrom(ctx); u != nil {
		name = u.GetName()
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "signerName"), fmt.Sprintf(`User %q is not permitted to "sign" for signer %q`, name, signer))}
}
