package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/podrefs"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

const (
	// unusedLasts is how long an unused legacy token stays valid, and how long after that it is
	// deleted.
	unusedLasts = 365 * 24 * time.Hour
	// legacyEvery is the interval of these checks.
	legacyEvery = 24 * time.Hour
	// maxLooks is how often a token is looked at that others change at the same time.
	maxLooks = 5

	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
	trackingMap       = metav1.NamespaceSystem + "/kube-apiserver-legacy-service-account-token-tracking"
)

// runLegacyTokens invalidates, and later deletes, generated service account tokens that were
// not used for a year.
func runLegacyTokens(ctx context.Context, c Config, cl *inprocess.Client) {
	k := &legacyCleaner{
		Config: c, client: cl, endpoint: c.endpoint(corev1.Resource("secrets")),
		accounts: engine.IndexOf[*corev1.ServiceAccount](c.endpoint(corev1.Resource("serviceaccounts"))),
		maps:     engine.IndexOf[*corev1.ConfigMap](c.endpoint(corev1.Resource("configmaps"))),
		pods:     engine.IndexOf[*corev1.Pod](c.endpoint(corev1.Resource("pods"))),
	}
	k.secrets = engine.IndexOf[*corev1.Secret](k.endpoint)
	for {
		if err := k.all(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("could not look for unused legacy tokens", "error", err)
		}
		select {
		case <-c.Clock.After(legacyEvery):
		case <-ctx.Done():
			return
		}
	}
}

type legacyCleaner struct {
	Config
	client   *inprocess.Client
	endpoint *engine.Endpoint
	secrets  *store.Index[*corev1.Secret]
	accounts *store.Index[*corev1.ServiceAccount]
	maps     *store.Index[*corev1.ConfigMap]
	pods     *store.Index[*corev1.Pod]
}

// all looks at all tokens, once their use has been tracked for long enough.
func (k *legacyCleaner) all(ctx context.Context) error {
	m, ok, err := get(ctx, k.maps, trackingMap)
	if !ok {
		return err
	}
	since, err := time.Parse(time.DateOnly, m.Data["since"])
	if err != nil {
		return err
	}
	now := k.Clock.Now().UTC()
	// Tracking may have begun at the end of that day.
	if now.Before(since.AddDate(0, 0, 1).Add(unusedLasts)) {
		return nil
	}
	secrets, err := k.secrets.Objects(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range secrets {
		errs = append(errs, k.settle(ctx, s, now))
	}
	return errors.Join(errs...)
}

// settle looks at a token, and again if it has changed meanwhile: the next round is a day away.
func (k *legacyCleaner) settle(ctx context.Context, s *corev1.Secret, now time.Time) error {
	for range maxLooks {
		err := k.look(ctx, s, now)
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := k.Store.Fresh(ctx); err != nil {
			return err
		}
		uid, ok := s.UID, false
		if s, ok, err = get(ctx, k.secrets, s.Namespace+"/"+s.Name); !ok || s.UID != uid {
			return err
		}
	}
	return nil
}

// look invalidates or deletes a token if it is unused. A conflict means that it has changed.
func (k *legacyCleaner) look(ctx context.Context, s *corev1.Secret, now time.Time) error {
	if s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil {
		return nil
	}
	oldest := now.Add(-unusedLasts)
	if !s.CreationTimestamp.Time.Before(oldest) || usedSince(s.Labels, oldest) {
		return nil
	}
	ours, err := k.generated(ctx, s)
	if !ours || err != nil {
		return err
	}
	mounted, err := k.mounted(ctx, s)
	if mounted || err != nil {
		return err
	}
	invalid, err := time.Parse(time.DateOnly, s.Labels[invalidSinceLabel])
	if err != nil {
		// By a patch: the controller's role has no update.
		err := k.client.Merge(ctx, at(k.endpoint, ""), request.Unchanged(s), map[string]any{"metadata": map[string]any{
			"labels": map[string]string{invalidSinceLabel: now.Format(time.DateOnly)}}})
		return ignoreMissing(err)
	}
	if invalid.Format(time.DateOnly) >= oldest.Format(time.DateOnly) {
		return nil
	}
	return ignoreMissing(k.client.Delete(ctx, at(k.endpoint, ""), request.Unchanged(s), nil))
}

// usedSince says that a token was used on a day or later, or that this is unknown.
func usedSince(labels map[string]string, day time.Time) bool {
	text, ok := labels[lastUsedLabel]
	if !ok {
		return false
	}
	used, err := time.Parse(time.DateOnly, text)
	return err != nil || used.Format(time.DateOnly) >= day.Format(time.DateOnly)
}

// generated says that a token was generated for its service account, which then names it.
func (k *legacyCleaner) generated(ctx context.Context, s *corev1.Secret) (bool, error) {
	a, ok, err := get(ctx, k.accounts, s.Namespace+"/"+accountOfSecret(s))
	if !ok {
		return false, err
	}
	uid := types.UID(s.Annotations[corev1.ServiceAccountUIDKey])
	return (uid == "" || uid == a.UID) && names(a.Secrets, s.Name), nil
}

// mounted says that a pod uses a secret.
func (k *legacyCleaner) mounted(ctx context.Context, s *corev1.Secret) (bool, error) {
	pods, err := k.pods.Objects(ctx, s.Namespace+"/")
	for _, pod := range pods {
		for name := range podrefs.Secrets(&pod.Spec) {
			if name == s.Name {
				return true, nil
			}
		}
	}
	return false, err
}
