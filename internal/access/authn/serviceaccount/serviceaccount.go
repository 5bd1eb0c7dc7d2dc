// Package serviceaccount implements the identities of service accounts: their user names and groups, and the tokens
// (JWTs) that prove them. It signs tokens, verifies them, and publishes the keys that verify them.
//
// A token is valid while its signature, issuer, audience and times are, and while its account and the object it is
// bound to (a pod, a secret, a node, a webhook configuration) exist with the UID in the token. Verified signatures are remembered; everything
// else is checked on each use, so that deleting an account revokes its tokens at once.
package serviceaccount

import (
	"context"
	"errors"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

const (
	usernamePrefix = "system:serviceaccount:"
	groupPrefix    = "system:serviceaccounts:"
	allGroup       = "system:serviceaccounts"
)

// Keys of a user's extra fields that say what a service account's token is bound to.
const (
	PodNameKey  = "authentication.kubernetes.io/pod-name"
	PodUIDKey   = "authentication.kubernetes.io/pod-uid"
	NodeNameKey = "authentication.kubernetes.io/node-name"
	NodeUIDKey  = "authentication.kubernetes.io/node-uid"

	validatingNameKey = "authentication.kubernetes.io/validatingwebhookconfiguration-name"
	validatingUIDKey  = "authentication.kubernetes.io/validatingwebhookconfiguration-uid"
	mutatingNameKey   = "authentication.kubernetes.io/mutatingwebhookconfiguration-name"
	mutatingUIDKey    = "authentication.kubernetes.io/mutatingwebhookconfiguration-uid"
	attestedGroupsKey = "attestation.authentication.kubernetes.io/" + attestedGroups
)

// Objects returns the objects that tokens refer to. Missing objects are NotFound errors of apimachinery. Results are
// read-only.
type Objects interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	ValidatingWebhooks(ctx context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error)
	MutatingWebhooks(ctx context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error)
}

// Username returns the user name of a service account.
func Username(namespace, name string) string {
	return usernamePrefix + namespace + ":" + name
}

// Groups returns the groups of all service accounts of a namespace.
func Groups(namespace string) []string {
	return []string{allGroup, groupPrefix + namespace}
}

var errUsername = errors.New("not the user name of a service account: want " + usernamePrefix + "NAMESPACE:NAME")

// SplitUsername splits a user name. It returns an error for a name that no account can have.
func SplitUsername(username string) (namespace, name string, err error) {
	rest, ok := strings.CutPrefix(username, usernamePrefix)
	if !ok {
		return "", "", errUsername
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || strings.Contains(name, ":") ||
		len(validation.ValidateNamespaceName(namespace, false)) > 0 ||
		len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", errUsername
	}
	return namespace, name, nil
}

// Identity is a service account as proven by a token.
type Identity struct {
	Namespace, Name, UID string
	PodName, PodUID      string
	NodeName, NodeUID    string
	// The configuration of webhooks that the token is for, and the API groups about which its holder may ask them.
	ValidatingName, ValidatingUID string
	MutatingName, MutatingUID     string
	AttestedGroups                []string
	// TokenID is the token's "jti" claim.
	TokenID string
	// Valid is how long the token is valid.
	Valid *request.Credential
}

// User returns the identity as authorization and audit see it.
func (i Identity) User() user.Info {
	u := &user.DefaultInfo{Name: Username(i.Namespace, i.Name), UID: i.UID, Groups: Groups(i.Namespace)}
	extra := map[string][]string{}
	if i.PodName != "" && i.PodUID != "" {
		extra[PodNameKey], extra[PodUIDKey] = []string{i.PodName}, []string{i.PodUID}
	}
	if i.NodeName != "" {
		extra[NodeNameKey] = []string{i.NodeName}
		if i.NodeUID != "" {
			extra[NodeUIDKey] = []string{i.NodeUID}
		}
	}
	if i.ValidatingName != "" && i.ValidatingUID != "" {
		extra[validatingNameKey], extra[validatingUIDKey] = []string{i.ValidatingName}, []string{i.ValidatingUID}
	}
	if i.MutatingName != "" && i.MutatingUID != "" {
		extra[mutatingNameKey], extra[mutatingUIDKey] = []string{i.MutatingName}, []string{i.MutatingUID}
	}
	if len(i.AttestedGroups) > 0 {
		extra[attestedGroupsKey] = i.AttestedGroups
	}
	if i.TokenID != "" {
		extra[user.CredentialIDKey] = []string{CredentialID(i.TokenID)}
	}
	if len(extra) > 0 {
		u.Extra = extra
	}
	return u
}

// CredentialID returns the name of a token in audit logs.
func CredentialID(tokenID string) string { return "JTI=" + tokenID }
