package authn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/remote/remotetest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestWebhooks has one webhook that knows users by tokens and one that allows
// them pods.
func TestWebhooks(t *testing.T) {
	users := remotetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		if in.Spec.Token == "hook" {
			in.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "hook-user", Groups: []string{"hooked"}}}
		}
		_ = json.NewEncoder(w).Encode(in)
	})
	permissions := remotetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		a := in.Spec.ResourceAttributes
		in.Status.Allowed = a != nil && a.Resource == "pods"
		in.Status.Denied = a != nil && a.Resource == "secrets"
		in.Status.Reason = "says the webhook"
		_ = json.NewEncoder(w).Encode(in)
	})
	authorization := func(condition string) string {
		return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: '%s'}]
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`, permissions, condition)
	}
	path := write(t, "authorization.yaml", authorization(`"hooked" in request.groups`))
	s := kanzentest.Start(t, kanzentest.Flags("--authentication-token-webhook-config-file="+users,
		"--authentication-token-webhook-version=v1", "--authorization-config="+path))
	c := with(s, "hook")
	if u, err := whoami(t.Context(), c); err != nil || u.Username != "hook-user" {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := whoami(t.Context(), with(s, "nosuch")); !apierrors.IsUnauthorized(err) {
		t.Errorf("an unknown token: %v", err)
	}
	pods := func() error { _, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); return err }
	if err := pods(); err != nil {
		t.Errorf("what the webhook allows: %v", err)
	}
	if _, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what the webhook denies: %v", err)
	}
	// The file changes: the webhook is not asked about anybody here any more.
	rewrite(t, path, authorization(`request.user == "somebody"`))
	within(t, 15*time.Second, "the webhook is not asked", func() bool { return apierrors.IsForbidden(pods()) })
	// Taking RBAC away is not possible while the server runs.
	rewrite(t, path, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: AlwaysAllow, name: alwaysallow}]\n")
	refusedFile(t, s, "authorization")
	if err := pods(); !apierrors.IsForbidden(err) {
		t.Errorf("after a file that does not count: %v", err)
	}
}
