// Package config parses the file of --authorization-config: the authorizers, their order, and how to call webhooks
// among them.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"

	"github.com/kanzen-io/kanzen/internal/access/authz/webhook"
)

// Types returns the authorizer types, as --authorization-mode spells them.
func Types() []string {
	return []string{"ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"}
}

// maxTimeout bounds the timeout of a webhook.
const maxTimeout = 30 * time.Second

// Load parses a configuration of any version, applies defaults, and returns everything that is wrong with it.
func Load(data []byte) (*apiserver.AuthorizationConfiguration, error) {
	c, err := load.LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	if errs := validate(c); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var errs []error
	for _, a := range c.Authorizers {
		if want := NameOf(string(a.Type)); a.Type != apiserver.TypeWebhook && a.Name != want {
			errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return c, nil
}

// NameOf returns the name of an authorizer of a type other than Webhook.
func NameOf(kind string) string { return strings.ToLower(kind) }

func validate(c *apiserver.AuthorizationConfiguration) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("authorizers")
	if len(c.Authorizers) == 0 {
		errs = append(errs, field.Required(at, "at least one authorization mode must be defined"))
	}
	types, names := map[string]bool{}, map[string]bool{}
	for i := range c.Authorizers {
		errs = append(errs, validateAuthorizer(&c.Authorizers[i], at.Index(i), types, names)...)
	}
	return errs
}

// validateAuthorizer validates one authorizer; types and names are those of the authorizers before it.
func validateAuthorizer(a *apiserver.AuthorizerConfiguration, at *field.Path, types, names map[string]bool) field.ErrorList {
	kind := string(a.Type)
	switch {
	case kind == "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case !slices.Contains(Types(), kind):
		return field.ErrorList{field.NotSupported(at.Child("type"), kind, Types())}
	case types[kind] && a.Type != apiserver.TypeWebhook:
		return field.ErrorList{field.Duplicate(at.Child("type"), kind)}
	}
	types[kind] = true
	var errs field.ErrorList
	if a.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else if names[a.Name] {
		errs = append(errs, field.Duplicate(at.Child("name"), a.Name))
	} else if wrong := utilvalidation.IsDNS1123Subdomain(a.Name); len(wrong) > 0 {
		errs = append(errs, field.Invalid(at.Child("name"), a.Name, "authorizer name is invalid: "+strings.Join(wrong, ", ")))
	}
	names[a.Name] = true
	switch {
	case a.Type == apiserver.TypeWebhook && a.Webhook == nil:
		errs = append(errs, field.Required(at.Child("webhook"), "required when type=Webhook"))
	case a.Type == apiserver.TypeWebhook:
		errs = append(errs, validateWebhook(a.Webhook, at)...)
	case a.Webhook != nil:
		errs = append(errs, field.Invalid(at.Child("webhook"), "non-null", "may only be specified when type=Webhook"))
	}
	return errs
}

func validateWebhook(w *apiserver.WebhookConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	oneOf := func(name, value string, required string, known ...string) {
		switch {
		case value == "" && required != "":
			errs = append(errs, field.Required(at.Child(name), strings.TrimSpace(required)))
		case value != "" && !slices.Contains(known, value):
			errs = append(errs, field.NotSupported(at.Child(name), value, known))
		}
	}
	if d := w.Timeout.Duration; d == 0 {
		errs = append(errs, field.Required(at.Child("timeout"), ""))
	} else if d > maxTimeout || d < 0 {
		errs = append(errs, field.Invalid(at.Child("timeout"), d.String(), "must be > 0s and <= 30s"))
	}
	positive := func(name string, ttl time.Duration) {
		if ttl == 0 {
			errs = append(errs, field.Required(at.Child(name), ""))
		} else if ttl < 0 {
			errs = append(errs, field.Invalid(at.Child(name), ttl.String(), "must be > 0s"))
		}
	}
	positive("authorizedTTL", w.AuthorizedTTL.Duration)
	positive("unauthorizedTTL", w.UnauthorizedTTL.Duration)
	oneOf("subjectAccessReviewVersion", w.SubjectAccessReviewVersion, " ", "v1", "v1beta1")
	needed := ""
	if len(w.MatchConditions) > 0 {
		needed = "required if match conditions are specified"
	}
	oneOf("matchConditionSubjectAccessReviewVersion", w.MatchConditionSubjectAccessReviewVersion, needed, "v1")
	oneOf("failurePolicy", w.FailurePolicy, " ", apiserver.FailurePolicyNoOpinion, apiserver.FailurePolicyDeny)
	errs = append(errs, validateConnection(&w.ConnectionInfo, at.Child("connectionInfo"))...)
	_, wrong := webhook.NewMatcher(Conditions(w), at.Child("matchConditions"))
	return append(errs, wrong...)
}

// Conditions returns the expressions of a webhook's match conditions.
func Conditions(w *apiserver.WebhookConfiguration) []string {
	var out []string
	for _, c := range w.MatchConditions {
		out = append(out, c.Expression)
	}
	return out
}

func validateConnection(c *apiserver.WebhookConnectionInfo, at *field.Path) field.ErrorList {
	file := at.Child("kubeConfigFile")
	switch c.Type {
	case "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case apiserver.AuthorizationWebhookConnectionInfoTypeInCluster:
		if c.KubeConfigFile != nil {
			return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "can only be set when type=KubeConfigFile")}
		}
		// InClusterConfig means the cluster's own API server, which would call itself.
		return field.ErrorList{field.Forbidden(at.Child("type"), "an API server cannot ask itself")}
	case apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile:
	default:
		return field.ErrorList{field.NotSupported(at.Child("type"), c.Type,
			[]string{apiserver.AuthorizationWebhookConnectionInfoTypeInCluster, apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile})}
	}
	if c.KubeConfigFile == nil || *c.KubeConfigFile == "" {
		return field.ErrorList{field.Required(file, "")}
	}
	if !filepath.IsAbs(*c.KubeConfigFile) {
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "must be an absolute path")}
	}
	info, err := os.Stat(*c.KubeConfigFile)
	if err != nil {
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, fmt.Sprintf("error loading file: %v", err))}
	}
	if !info.Mode().IsRegular() {
		return field.ErrorList{field.Invalid(file, *c.KubeConfigFile, "must be a regular file")}
	}
	return nil
}
