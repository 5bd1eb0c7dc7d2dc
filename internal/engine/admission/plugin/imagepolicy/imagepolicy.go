// Package imagepolicy asks a backend whether the images of pods may be used.
package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "ImagePolicyWebhook"

// auditPrefix begins the keys of the plugin's audit annotations.
const auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"

// tries is how often the backend is asked about one pod.
const tries = 5

type plugin struct {
	*config
	clock clock.Clock
	// answers caches answers for the times in the configuration.
	answers *cache.LRUExpireCache
}

// New makes the plugin. An empty configuration has no backend and is an error.
func New(clock clock.Clock, configuration []byte) (admission.Plugin, error) {
	c, err := read(configuration)
	if err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p := &plugin{config: c, clock: clock, answers: cache.NewLRUExpireCacheWithClock(1024, clock)}
	return admission.Plugin{Name: Name, Validator: p, On: []admission.Operation{admission.Create, admission.Update},
		Of: []schema.GroupResource{admission.Pods}}, nil
}

// Validate refuses pods with images that the backend refuses.
func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" && a.Subresource != "ephemeralcontainers" {
		return nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	review := imagepolicyv1alpha1.ImageReview{Spec: specOf(pod, a)}
	review.SetGroupVersionKind(imagepolicyv1alpha1.SchemeGroupVersion.WithKind("ImageReview"))
	key, err := json.Marshal(review.Spec)
	if err != nil {
		return admission.Forbidden(a, err)
	}
	st, ok := p.known(string(key))
	if !ok {
		if st, err = p.ask(ctx, &review); err != nil {
			return p.failed(ctx, a, pod, err)
		}
		ttl := p.denyTTL
		if st.Allowed {
			ttl = p.allowTTL
		}
		p.answers.Add(string(key), st, ttl)
	}
	for k, v := range st.AuditAnnotations {
		request.AddAuditAnnotation(ctx, auditPrefix+k, v)
	}
	switch {
	case st.Allowed:
		return nil
	case st.Reason != "":
		return admission.Forbiddenf(a, "image policy webhook backend denied one or more images: %s", st.Reason)
	}
	return admission.Forbidden(a, errors.New("one or more images rejected by webhook backend"))
}

// specOf returns what is sent to the backend about a pod.
func specOf(pod *corev1.Pod, a *admission.Attributes) imagepolicyv1alpha1.ImageReviewSpec {
	spec := imagepolicyv1alpha1.ImageReviewSpec{Namespace: a.Namespace, Annotations: map[string]string{}}
	add := func(image string) {
		spec.Containers = append(spec.Containers, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if a.Subresource == "" {
		for _, c := range pod.Spec.Containers {
			add(c.Image)
		}
		for _, c := range pod.Spec.InitContainers {
			add(c.Image)
		}
	} else {
		for _, c := range pod.Spec.EphemeralContainers {
			add(c.Image)
		}
	}
	for k, v := range pod.Annotations {
		if strings.Contains(k, ".image-policy.k8s.io/") {
			spec.Annotations[k] = v
		}
	}
	return spec
}

func (p *plugin) known(key string) (imagepolicyv1alpha1.ImageReviewStatus, bool) {
	v, ok := p.answers.Get(key)
	if !ok {
		return imagepolicyv1alpha1.ImageReviewStatus{}, false
	}
	return v.(imagepolicyv1alpha1.ImageReviewStatus), true
}

// ask asks the backend. It tries again after a temporary failure.
func (p *plugin) ask(ctx context.Context, review *imagepolicyv1alpha1.ImageReview) (imagepolicyv1alpha1.ImageReviewStatus, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return imagepolicyv1alpha1.ImageReviewStatus{}, err
	}
	wait := p.backoff
	for try := 1; ; try++ {
		answer, err := p.backend.Post(ctx, body)
		if err == nil {
			var out imagepolicyv1alpha1.ImageReview
			err = json.Unmarshal(answer, &out)
			return out.Status, err
		}
		if try == tries || !passing(err) {
			return imagepolicyv1alpha1.ImageReviewStatus{}, err
		}
		select {
		case <-p.clock.After(wait):
		case <-ctx.Done():
			return imagepolicyv1alpha1.ImageReviewStatus{}, err
		}
		wait += wait / 2
	}
}

// passing says that a failure is temporary.
func passing(err error) bool {
	var st *apierrors.StatusError
	if !errors.As(err, &st) {
		return true // a connection error
	}
	return apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// failed handles a failed call: the pod is refused, or admitted with an annotation.
func (p *plugin) failed(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, err error) error {
	if !p.allowOnFailures {
		return admission.Forbidden(a, err)
	}
	request.AddAuditAnnotation(ctx, auditPrefix+"failed-open", "true")
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["alpha.image-policy.k8s.io/failed-open"] = "true"
	return nil
}
