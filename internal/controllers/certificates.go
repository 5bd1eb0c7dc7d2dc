package controllers

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/csr"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// csrWorker has the common parts of the controllers of
// CertificateSigningRequests.
type csrWorker struct {
	endpoint  *engine.Endpoint
	requests  *store.Index[*certificatesv1.CertificateSigningRequest]
	client    *inprocess.Client
	authority *pki.Authority
	clock     clock.PassiveClock
}

// csrWork calls look for every request.
func csrWork(ctx context.Context, c Config, name string, cl *inprocess.Client, look func(w *csrWorker, ctx context.Context, r *certificatesv1.CertificateSigningRequest) (time.Duration, error)) {
	ep := c.endpoint(certificatesv1.Resource("certificatesigningrequests"))
	if ep == nil {
		return // --runtime-config does without the group
	}
	w := &csrWorker{ep, engine.IndexOf[*certificatesv1.CertificateSigningRequest](ep), cl, c.Authority, c.Clock}
	c.work(ctx, name, func(ctx context.Context, name string) (time.Duration, error) {
		r, ok, err := get(ctx, w.requests, name)
		if !ok {
			return 0, err
		}
		return look(w, ctx, r)
	}, follow(w.requests, func(c store.Change[*certificatesv1.CertificateSigningRequest]) (string, bool) {
		return c.Name(), !c.Gone
	}))
}

// runCSRSigning issues certificates for approved requests to Kubernetes' signers,
// signed by the server's own authority.
func runCSRSigning(ctx context.Context, c Config, cl *inprocess.Client) {
	if c.Authority != nil {
		csrWork(ctx, c, "csrsigning", cl, (*csrWorker).sign)
	}
}

const (
	// longestCertificate is the validity of a certificate unless its request asks
	// for less.
	longestCertificate = 365 * 24 * time.Hour
	// shortestCertificate is the shortest validity that a request can ask for.
	shortestCertificate = 10 * time.Minute
)

// sign issues a certificate, or records why it is refused.
func (w *csrWorker) sign(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	check, ours := signers[r.Spec.SignerName]
	if !ours || !isTrue(r, certificatesv1.CertificateApproved) || isTrue(r, certificatesv1.CertificateFailed) || len(r.Status.Certificate) > 0 {
		return 0, nil
	}
	wanted, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return 0, err
	}
	var certificate []byte
	usage, extended, failed := keyUsages(r.Spec.Usages)
	if failed == nil {
		failed = check(wanted, r.Spec.Usages)
	}
	if failed == nil {
		if certificate, err = w.authority.Sign(wanted, usage, extended, lifeOf(r), w.clock.Now()); err != nil {
			return 0, err
		}
	}
	_, err = inprocess.Edit(ctx, w.client, at(w.endpoint, "status"), request.Unchanged(r), func(r *certificatesv1.CertificateSigningRequest) error {
		if failed == nil {
			r.Status.Certificate = certificate
			return nil
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
			Reason: "SignerValidationFailure", Message: failed.Error(), LastUpdateTime: metav1.NewTime(w.clock.Now()),
		})
		return nil
	})
	return 0, ignoreMissing(err)
}

// lifeOf returns the validity of a certificate.
func lifeOf(r *certificatesv1.CertificateSigningRequest) time.Duration {
	if r.Spec.ExpirationSeconds == nil {
		return longestCertificate
	}
	return min(max(time.Duration(*r.Spec.ExpirationSeconds)*time.Second, shortestCertificate), longestCertificate)
}

func isTrue(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == t && c.Status != corev1.ConditionFalse && c.Status != corev1.ConditionUnknown {
			return true
		}
	}
	return false
}

// runCSRApproving approves the requests of kubelets for their own client
// certificates, if their users are allowed to make them.
func runCSRApproving(ctx context.Context, c Config, cl *inprocess.Client) {
	csrWork(ctx, c, "csrapproving", cl, (*csrWorker).approve)
}

// errNotAllowed means that a request can be approved only once its user gets the
// permission.
var errNotAllowed = errors.New("the user of the request may not have it approved")

// approve approves a request for a kubelet's client certificate.
func (w *csrWorker) approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	if len(r.Status.Certificate) > 0 || isTrue(r, certificatesv1.CertificateApproved) || isTrue(r, certificatesv1.CertificateDenied) ||
		r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return 0, nil
	}
	wanted, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return 0, err
	}
	if kubeletClient(wanted, r.Spec.Usages) != nil {
		return 0, nil
	}
	kinds := []struct{ subresource, message string }{
		{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
		{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
	}
	if r.Spec.Username != wanted.Subject.CommonName {
		kinds = kinds[1:]
	}
	for _, k := range kinds {
		allowed, err := w.allowed(ctx, r, k.subresource)
		if err != nil {
			return 0, err
		}
		if !allowed {
			continue
		}
		_, err = inprocess.Edit(ctx, w.client, at(w.endpoint, "approval"), request.Unchanged(r), func(r *certificatesv1.CertificateSigningRequest) error {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: k.message,
			})
			return nil
		})
		return 0, ignoreMissing(err)
	}
	return 0, fmt.Errorf("%w: %s", errNotAllowed, r.Name)
}

// runCSRCleaner deletes requests that are no longer needed.
func runCSRCleaner(ctx context.Context, c Config, cl *inprocess.Client) {
	csrWork(ctx, c, "csrcleaner", cl, (*csrWorker).clean)
}

const (
	decidedLasts = time.Hour      // a request that was issued, denied or failed
	openLasts    = 24 * time.Hour // a request that was not decided or not signed yet
)

// clean deletes a request that has expired.
func (w *csrWorker) clean(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	end, ok := endOf(r)
	if !ok {
		return 0, nil
	}
	if left := end.Sub(w.clock.Now()); left > 0 {
		return left, nil
	}
	return 0, ignoreMissing(w.client.Delete(ctx, at(w.endpoint, ""), request.Unchanged(r), nil))
}

// endOf returns when a request may be deleted; ok is false if that is not known
// yet.
func endOf(r *certificatesv1.CertificateSigningRequest) (end time.Time, ok bool) {
	earlier := func(at time.Time, after time.Duration) {
		if !at.IsZero() && (!ok || at.Add(after).Before(end)) {
			end, ok = at.Add(after), true
		}
	}
	if len(r.Status.Conditions) == 0 {
		earlier(r.CreationTimestamp.Time, openLasts)
	}
	issued := len(r.Status.Certificate) > 0
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type != certificatesv1.CertificateApproved:
			earlier(c.LastUpdateTime.Time, decidedLasts)
		case !issued:
			earlier(c.LastUpdateTime.Time, openLasts)
		default:
			earlier(c.LastUpdateTime.Time, decidedLasts)
			if cert, err := x509.ParseCertificate(pemBytes(r.Status.Certificate)); err == nil {
				earlier(cert.NotAfter, 0)
			}
		}
	}
	return end, ok
}
