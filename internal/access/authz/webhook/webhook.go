// Package webhook authorizes by sending SubjectAccessReviews to another server. It remembers answers for some time. CEL
// conditions may restrict the requests for which it calls the server.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

const (
	// remembered bounds the number of remembered answers.
	remembered = 8192
	// maxRemembered bounds the part of a request that the client chooses, in bytes, for its answer to be remembered.
	maxRemembered = 10000
)

// Config configures a webhook.
type Config struct {
	// Name is the authorizer's name in metrics.
	Name   string
	Client *remote.Client
	// Version of the reviews, v1 or v1beta1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long allowed and denied answers are remembered; zero: not at all.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// OnError is the decision if the call fails: Deny or NoOpinion.
	OnError authz.Decision
	// Match selects the requests for which the webhook is called; nil: all.
	Match   *Matcher
	Retry   remote.Retry
	Clock   clock.Clock
	Metrics *Metrics
	Log     *slog.Logger
}

// Authorizer is a webhook.
type Authorizer struct {
	Config
	answers *cache.LRUExpireCache
}

// New creates an authorizer.
func New(c Config) (*Authorizer, error) {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return nil, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are %q, %q", c.Version, "v1", "v1beta1")
	}
	return &Authorizer{Config: c, answers: cache.NewLRUExpireCacheWithClock(remembered, c.Clock)}, nil
}

// Authorize calls the webhook, unless its conditions exclude the request or the answer is remembered.
func (w *Authorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	spec := specOf(a)
	matches, err := w.matches(ctx, spec)
	if err != nil {
		return w.OnError, "", err
	}
	if !matches {
		return authz.NoOpinion, "", nil
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return w.OnError, "", err
	}
	var status authorizationv1.SubjectAccessReviewStatus
	if known, ok := w.answers.Get(string(key)); ok {
		status = known.(authorizationv1.SubjectAccessReviewStatus)
	} else {
		if status, err = w.ask(ctx, spec); err != nil {
			return w.OnError, "", err
		}
		w.remember(string(key), a, status)
	}
	switch {
	case status.Denied && status.Allowed:
		return authz.Deny, status.Reason, errors.New("webhook subject access review returned both allow and deny response")
	case status.Denied:
		return authz.Deny, status.Reason, nil
	case status.Allowed:
		return authz.Allow, status.Reason, nil
	}
	return authz.NoOpinion, status.Reason, nil
}

// RulesFor returns an error: what a webhook allows cannot be listed.
func (w *Authorizer) RulesFor(user.Info, string) ([]rbacv1.PolicyRule, error) {
	return nil, authz.IncompleteRules("webhook")
}

func (w *Authorizer) matches(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	if w.Match == nil {
		return true, nil
	}
	began := w.Clock.Now()
	matches, err := w.Match.Matches(ctx, spec)
	w.Metrics.matched(w.Name, w.Clock.Since(began), matches, err)
	return matches, err
}

// remember stores an answer. Answers to long requests are not stored, so that clients cannot fill the memory.
func (w *Authorizer) remember(key string, a *authz.Attributes, status authorizationv1.SubjectAccessReviewStatus) {
	ttl := w.UnauthorizedTTL
	if status.Allowed {
		ttl = w.AuthorizedTTL
	}
	size := len(a.Namespace) + len(a.Verb) + len(a.Group) + len(a.Version) + len(a.Resource) + len(a.Subresource) + len(a.Name) + len(a.Path)
	if ttl > 0 && size < maxRemembered {
		w.answers.Add(key, status, ttl)
	}
}

// ask sends the review, and retries after temporary errors.
func (w *Authorizer) ask(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	var status authorizationv1.SubjectAccessReviewStatus
	var result string
	err := w.Retry.Do(ctx, func() error {
		began := w.Clock.Now()
		var err error
		status, err = w.post(ctx, spec)
		result = resultOf(ctx, err)
		w.Metrics.asked(w.Name, result, w.Clock.Since(began))
		return err
	})
	if err == nil {
		return status, nil
	}
	w.Log.Log(ctx, request.FailureLevel(ctx, slog.LevelError), "Failed to make webhook authorizer request", "authorizer", w.Name, "err", err)
	if w.OnError == authz.NoOpinion && ctx.Err() == nil {
		w.Metrics.failedOpen(w.Name, result)
	}
	return status, err
}

func (w *Authorizer) post(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if w.Version == "v1beta1" {
		var answer authorizationv1beta1.SubjectAccessReview
		_, err := w.Client.Post(ctx, old(spec), &answer)
		return authorizationv1.SubjectAccessReviewStatus(answer.Status), err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: *spec}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SubjectAccessReview"
	var answer authorizationv1.SubjectAccessReview
	_, err := w.Client.Post(ctx, review, &answer)
	return answer.Status, err
}

func resultOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case remote.IsTimeout(err):
		return "timeout"
	}
	return "error"
}
