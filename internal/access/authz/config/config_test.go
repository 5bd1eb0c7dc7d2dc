package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "k")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hook := func(more string) string {
		return fmt.Sprintf(`{type: Webhook, name: hook, webhook: {timeout: 3s, subjectAccessReviewVersion: v1, failurePolicy: Deny,
  connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}%s}}`, kubeconfig, more)
	}
	for _, c := range []struct{ name, version, authorizers, wrong string }{
		{"all", "v1", `[{type: Node, name: node}, {type: RBAC, name: rbac}, ` + hook("") + `]`, ""},
		{"conditions", "v1beta1", `[` + hook(`, matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: "request.user == 'x'"}]`) + `]`, ""},
		{"alpha", "v1alpha1", `[{type: RBAC, name: rbac}]`, ""},
		{"none", "v1", `[]`, "at least one authorization mode must be defined"},
		{"unknown", "v1", `[{type: X, name: x}]`, `Unsupported value: "X"`},
		{"twice", "v1", `[{type: RBAC, name: rbac}, {type: RBAC, name: b}]`, "Duplicate value"},
		{"name", "v1", `[{type: RBAC, name: x}]`, "expected name rbac for authorizer RBAC instead of x"},
		{"webhook of RBAC", "v1", `[{type: RBAC, name: rbac, webhook: {}}]`, "may only be specified when type=Webhook"},
		{"no webhook", "v1", `[{type: Webhook, name: x}]`, "required when type=Webhook"},
		{"empty webhook", "v1", `[{type: Webhook, name: x, webhook: {}}]`, "authorizers[0].failurePolicy: Required value"},
		{"condition", "v1", `[` + hook(`, matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: "1"}]`) + `]`, "must evaluate to bool but got int"},
		{"condition without version", "v1", `[` + hook(`, matchConditions: [{expression: "true"}]`) + `]`, "required if match conditions are specified"},
		{"itself", "v1", `[{type: Webhook, name: x, webhook: {connectionInfo: {type: InClusterConfig}}}]`, "cannot ask itself"},
		{"unknown field", "v1", `[{type: RBAC, name: rbac, nosuch: 1}]`, `unknown field`},
	} {
		got, err := Load([]byte("apiVersion: apiserver.config.k8s.io/" + c.version + "\nkind: AuthorizationConfiguration\nauthorizers: " + c.authorizers))
		switch {
		case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		case c.name == "all":
			w := got.Authorizers[2].Webhook
			if w.AuthorizedTTL.Duration != 5*time.Minute || w.UnauthorizedTTL.Duration != 30*time.Second || !w.CacheAuthorizedRequests || !w.CacheUnauthorizedRequests {
				t.Errorf("defaults: %+v", w)
			}
		}
	}
}
