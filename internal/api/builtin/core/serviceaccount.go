package core

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func serviceAccounts(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "serviceaccounts", Kind: "ServiceAccount",
		ShortNames:    []string{"sa"},
		Namespaced:    true,
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.ServiceAccount, corev1.ServiceAccountList](v1, nil)),
		Rules: engine.Typed[*corev1.ServiceAccount]{
			PrepareCreate: func(_ context.Context, a *corev1.ServiceAccount) { keepSecretNames(a) },
			Validate: func(_ context.Context, a *corev1.ServiceAccount) field.ErrorList {
				return rules.ObjectMeta(&a.ObjectMeta, true, rules.ServiceAccountName)
			},
			Warn:          warnServiceAccount,
			PrepareUpdate: func(_ context.Context, a, _ *corev1.ServiceAccount) { keepSecretNames(a) },
			ValidateUpdate: func(_ context.Context, a, old *corev1.ServiceAccount) field.ErrorList {
				return append(rules.ObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta),
					rules.ObjectMeta(&a.ObjectMeta, true, rules.ServiceAccountName)...)
			},
		}.Rules(),
		Subresources: []*engine.Subresource{{
			Name: "token", Verbs: []string{"create"},
			Kind:   authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"),
			Create: createToken(d),
			New:    func() engine.Object { return &authenticationv1.TokenRequest{} },
		}},
		Table: serviceAccountTable(),
	}
}

// keepSecretNames drops everything except the names of referenced secrets: they are in the account's namespace, and
// other fields have no effect.
func keepSecretNames(a *corev1.ServiceAccount) {
	for i := range a.Secrets {
		a.Secrets[i] = corev1.ObjectReference{Name: a.Secrets[i].Name}
	}
}

const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func warnServiceAccount(_ context.Context, a, old *corev1.ServiceAccount) []string {
	if old != nil {
		if _, found := old.Annotations[mountableSecrets]; found {
			return nil
		}
	}
	if _, found := a.Annotations[mountableSecrets]; !found {
		return nil
	}
	return []string{"metadata.annotations[" + mountableSecrets + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
