// Package serviceaccount knows the identities of service accounts: their user
// names and groups, and the tokens (JWTs) that prove them. It signs tokens,
// verifies them, and publishes the keys to verify them with.
//
// A token is good while its signature, issuer, audience and times are, and
// while the account and the object it is bound to (a pod, a secret, a node)
// exist with the UID in the token. Signatures are checked once and remembered;
// everything else is checked on each use, so that a deleted account is locked
// out at once.
package serviceaccount

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	usernamePrefix = "system:serviceaccount:"
	groupPrefix    = "system:serviceaccounts:"
	allGroup       = "system:serviceaccounts"
)

// Keys of a user's extra fields that say where a service account's token is bound.
const (
	PodNameKey  = "authentication.kubernetes.io/pod-name"
	PodUIDKey   = "authentication.kubernetes.io/pod-uid"
	NodeNameKey = "authentication.kubernetes.io/node-name"
	NodeUIDKey  = "authentication.kubernetes.io/node-uid"
)

// Objects looks up what tokens refer to. Missing objects are NotFound errors
// of apimachinery. Results are read only.
type Objects interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// Username is the user name of a service account.
func Username(namespace, name string) string {
	return usernamePrefix + namespace + ":" + name
}

// Groups are the groups of all service accounts of a namespace.
func Groups(namespace string) []string {
	return []string{allGroup, groupPrefix + namespace}
}

var errUsername = errors.New("not the user name of a service account: want " + usernamePrefix + "NAMESPACE:NAME")

// SplitUsername takes a user name apart. Names that no account can have are errors.
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

// Identity is a service account as a token presents it.
type Identity struct {
	Namespace, Name, UID string
	PodName, PodUID      string
	NodeName, NodeUID    string
	// TokenID is the token's "jti" claim.
	TokenID string
}

// User is the identity in the form that authorization and audit know.
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
	if i.TokenID != "" {
		extra[user.CredentialIDKey] = []string{CredentialID(i.TokenID)}
	}
	if len(extra) > 0 {
		u.Extra = extra
	}
	return u
}

// CredentialID is how a token is named in audit logs.
func CredentialID(tokenID string) string { return "JTI=" + tokenID }
