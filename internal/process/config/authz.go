package config

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/apis/apiserver"

	authzconfig "github.com/kanzen-io/kanzen/internal/access/authz/config"
)

// authorizationFlags are the flags that --authorization-config replaces.
var authorizationFlags = []string{
	"authorization-mode", "authorization-webhook-config-file", "authorization-webhook-version",
	"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
}

func (c *Config) addAuthorizationFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.AuthorizationModes, "authorization-mode", c.AuthorizationModes, "How requests are authorized, in this order: "+strings.Join(authzconfig.Types(), ", ")+". (default AlwaysAllow)")
	fs.StringVar(&c.AuthorizationConfigFile, "authorization-config", c.AuthorizationConfigFile, "File that says how requests are authorized, instead of --authorization-mode and --authorization-webhook-*; taken up again when it changes.")
	fs.StringVar(&c.AuthorizationPolicyFile, "authorization-policy-file", c.AuthorizationPolicyFile, "Policies of the mode ABAC, a JSON object a line.")
	fs.StringVar(&c.AuthorizationWebhookFile, "authorization-webhook-config-file", c.AuthorizationWebhookFile, "kubeconfig of the server that the mode Webhook asks.")
	fs.StringVar(&c.AuthorizationWebhookVersion, "authorization-webhook-version", c.AuthorizationWebhookVersion, "Version of the SubjectAccessReviews that the mode Webhook sends.")
	fs.DurationVar(&c.AuthorizationWebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", c.AuthorizationWebhookAuthorizedTTL, "How long the mode Webhook remembers that something is allowed.")
	fs.DurationVar(&c.AuthorizationWebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", c.AuthorizationWebhookUnauthorizedTTL, "How long the mode Webhook remembers that something is not allowed.")
}

func (c *Config) validateAuthorization(bad reporter) {
	if c.AuthorizationConfigFile != "" {
		if c.given != nil && slices.ContainsFunc(authorizationFlags, c.given) {
			bad("authorization-config", "can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
		}
		return
	}
	seen := map[string]bool{}
	for _, m := range c.AuthorizationModes {
		if !slices.Contains(authzconfig.Types(), m) {
			bad("authorization-mode", "%q is not a valid mode (%s)", m, strings.Join(authzconfig.Types(), ", "))
		}
		if seen[m] {
			bad("authorization-mode", "%q has mode specified more than once", c.AuthorizationModes)
		}
		seen[m] = true
	}
	switch {
	case seen["ABAC"] && c.AuthorizationPolicyFile == "":
		bad("authorization-policy-file", "must be specified with the mode ABAC")
	case !seen["ABAC"] && c.AuthorizationPolicyFile != "":
		bad("authorization-policy-file", "cannot be specified without the mode ABAC")
	}
	switch {
	case seen["Webhook"] && c.AuthorizationWebhookFile == "":
		bad("authorization-webhook-config-file", "must be specified with the mode Webhook")
	case !seen["Webhook"] && c.AuthorizationWebhookFile != "":
		bad("authorization-webhook-config-file", "cannot be specified without the mode Webhook")
	}
}

// Authorization returns the flags in the form of the file.
func (c *Plane) Authorization() *apiserver.AuthorizationConfiguration {
	modes := c.AuthorizationModes
	if len(modes) == 0 {
		modes = []string{"AlwaysAllow"}
	}
	out := &apiserver.AuthorizationConfiguration{}
	for _, m := range modes {
		a := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(m), Name: authzconfig.NameOf(m)}
		if a.Type == apiserver.TypeWebhook {
			a.Name = "default"
			a.Webhook = &apiserver.WebhookConfiguration{
				AuthorizedTTL:              metav1.Duration{Duration: c.AuthorizationWebhookAuthorizedTTL},
				CacheAuthorizedRequests:    c.AuthorizationWebhookAuthorizedTTL != 0,
				UnauthorizedTTL:            metav1.Duration{Duration: c.AuthorizationWebhookUnauthorizedTTL},
				CacheUnauthorizedRequests:  c.AuthorizationWebhookUnauthorizedTTL != 0,
				Timeout:                    metav1.Duration{Duration: 30 * time.Second},
				FailurePolicy:              apiserver.FailurePolicyNoOpinion,
				SubjectAccessReviewVersion: c.AuthorizationWebhookVersion,
				ConnectionInfo: apiserver.WebhookConnectionInfo{
					Type:           apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile,
					KubeConfigFile: &c.AuthorizationWebhookFile,
				},
			}
		}
		out.Authorizers = append(out.Authorizers, a)
	}
	return out
}
