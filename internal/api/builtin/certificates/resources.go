// Package certificates is the API group certificates.k8s.io: certificate signing requests, which one user creates,
// another approves and a third signs; requests of kubelets for the certificates of their pods; and the certificates of
// authorities, in bundles, by which pods verify others.
package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request"
)

var (
	v1 = certificatesv1.SchemeGroupVersion
	// v1beta1 is the version in which upstream stores what became v1 in 1.37, so that 1.36 can read it.
	v1beta1 = certificatesv1beta1.SchemeGroupVersion
)

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Now is the server's clock.
	Now func() time.Time
	// MaySign reports whether the context's user may sign for a signer.
	MaySign func(ctx context.Context, signer string) bool
	// Gates says which features are on.
	Gates features.Set
	// Issued is told of each certificate for which a duration was requested; optional.
	Issued func(signer string, honored bool)
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	all := []*engine.Resource{certificateSigningRequests(d)}
	if d.Gates.Enabled(features.ClusterTrustBundle) {
		all = append(all, clusterTrustBundles())
	}
	if d.Gates.Enabled(features.PodCertificateRequest) {
		all = append(all, podCertificateRequests(d))
	}
	return engine.Kinds(all...)
}

func certificateSigningRequests(d Deps) *engine.Resource {
	status := engine.Typed[*certificatesv1.CertificateSigningRequest]{
		PrepareUpdate: func(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
			keepConditions(r, old, certificatesv1.CertificateApproved)
			keepConditions(r, old, certificatesv1.CertificateDenied)
			d.stampConditions(r, old)
		},
		ValidateUpdate: validateStatus,
		BeginUpdate:    d.issuing,
		Reset:          engine.ResetFields([]string{"spec"}, []string{"status", "conditions"}),
	}
	approval := engine.Typed[*certificatesv1.CertificateSigningRequest]{
		PrepareUpdate: func(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
			d.stampConditions(r, old)
			conditions := r.Status.Conditions
			r.Spec = old.Spec
			r.Status = old.Status
			r.Status.Conditions = conditions
		},
		ValidateUpdate: validateApproval,
		Reset:          engine.ResetFields([]string{"spec"}, []string{"status", "certificate"}),
	}.Rules()
	return &engine.Resource{
		Plural: "certificatesigningrequests", Kind: "CertificateSigningRequest",
		ShortNames: []string{"csr"},
		Versions: []*engine.Version{engine.VersionOf[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](
			v1, nil)},
		Rules: engine.Typed[*certificatesv1.CertificateSigningRequest]{
			PrepareCreate: prepareCreate,
			PrepareUpdate: func(_ context.Context, r, old *certificatesv1.CertificateSigningRequest) {
				r.Spec = old.Spec
				r.Status = old.Status
			},
			Validate:       validate,
			ValidateUpdate: validateUpdate,
			Reset:          engine.ResetFields([]string{"spec"}, []string{"status"}),
		}.Rules(),
		Subresources: []*engine.Subresource{
			{Name: "approval", Verbs: []string{"get", "patch", "update"}, Rules: &approval},
			engine.Status(status),
		},
		Fields: engine.Fields(func(r *certificatesv1.CertificateSigningRequest) fields.Set {
			return fields.Set{"spec.signerName": r.Spec.SignerName}
		}),
		Table: certificateSigningRequestTable(),
	}
}

// prepareCreate records the requesting user, for approvers.
func prepareCreate(ctx context.Context, r *certificatesv1.CertificateSigningRequest) {
	s := &r.Spec
	s.Username, s.UID, s.Groups, s.Extra = "", "", nil, nil
	if u := request.UserFrom(ctx); u != nil {
		s.Username, s.UID, s.Groups = u.GetName(), u.GetUID(), u.GetGroups()
		for k, v := range u.GetExtra() {
			if s.Extra == nil {
				s.Extra = map[string]certificatesv1.ExtraValue{}
			}
			s.Extra[k] = v
		}
	}
	r.Status = certificatesv1.CertificateSigningRequestStatus{}
}

// keepConditions reverts changes of existing conditions of a type; validation rejects added and removed ones.
func keepConditions(r, old *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) {
	indices := func(r *certificatesv1.CertificateSigningRequest) []int {
		var out []int
		for i := range r.Status.Conditions {
			if r.Status.Conditions[i].Type == t {
				out = append(out, i)
			}
		}
		return out
	}
	at, was := indices(r), indices(old)
	if len(at) != len(was) {
		return
	}
	for i := range at {
		r.Status.Conditions[at[i]] = old.Status.Conditions[was[i]]
	}
}

// stampConditions sets the times that the client omitted.
func (d Deps) stampConditions(r, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.NewTime(d.Now())
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, was := range old.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}
