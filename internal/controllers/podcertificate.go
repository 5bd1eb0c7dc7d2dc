package controllers

import (
	"context"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// podCertificateLasts is longer than any kubelet waits for the certificate of a pod.
const podCertificateLasts = 15 * time.Minute

// runPodCertificateCleaner deletes requests for certificates of pods some time after their creation, whatever became of them.
func runPodCertificateCleaner(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(certificatesv1beta1.Resource("podcertificaterequests"))
	if ep == nil {
		return
	}
	requests := engine.IndexOf[*certificatesv1beta1.PodCertificateRequest](ep)
	c.work(ctx, "podcertificaterequestcleaner", func(ctx context.Context, key string) (time.Duration, error) {
		r, ok, err := get(ctx, requests, key)
		if !ok {
			return 0, err
		}
		if left := r.CreationTimestamp.Add(podCertificateLasts).Sub(c.Clock.Now()); left > 0 {
			return left, nil
		}
		return 0, ignoreMissing(cl.Delete(ctx, at(ep, ""), request.Same(r), nil))
	}, follow(requests, func(c store.Change[*certificatesv1beta1.PodCertificateRequest]) (string, bool) {
		return c.Namespace() + "/" + c.Name(), !c.Gone
	}))
}
