package controllers

import (
	"bytes"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// runTokens adds tokens to the secrets of type service-account-token, and deletes those whose service account
// was deleted.
func runTokens(ctx context.Context, c Config, cl *inprocess.Client) {
	if c.Tokens == nil {
		return
	}
	k := &tokenKeeper{
		accountsAt: c.endpoint(corev1.Resource("serviceaccounts")), secretsAt: c.endpoint(corev1.Resource("secrets")),
		client: cl, signer: c.Tokens, rootCA: c.RootCA, fresh: c.Store.Fresh,
	}
	k.accounts, k.secrets = engine.IndexOf[*corev1.ServiceAccount](k.accountsAt), engine.IndexOf[*corev1.Secret](k.secretsAt)
	c.work(ctx, "serviceaccount_tokens", once(k.look),
		func(ctx context.Context, q *queue.Queue, begun, ended func()) {
			k.secrets.Join(ctx, ended, k.secretChanged(ctx, q), func(int64) { begun() })
		},
		func(ctx context.Context, q *queue.Queue, begun, ended func()) {
			k.accounts.Join(ctx, ended, func(c store.Change[*corev1.ServiceAccount]) {
				if c.Gone {
					k.all(ctx, q, c.Namespace(), c.Name())
				}
			}, func(int64) { begun() })
		})
}

type tokenKeeper struct {
	accountsAt, secretsAt *engine.Endpoint
	accounts              *store.Index[*corev1.ServiceAccount]
	secrets               *store.Index[*corev1.Secret]
	client                *inprocess.Client
	signer                *serviceaccount.Signer
	rootCA                []byte
	fresh                 func(ctx context.Context) error
}

// accountOfSecret returns the name of the service account of a token secret; "" if it has another type.
func accountOfSecret(s *corev1.Secret) string {
	if s.Type != corev1.SecretTypeServiceAccountToken {
		return ""
	}
	return s.Annotations[corev1.ServiceAccountNameKey]
}

// secretChanged queues changed secrets, and removes deleted ones from their service accounts.
func (k *tokenKeeper) secretChanged(ctx context.Context, q *queue.Queue) func(store.Change[*corev1.Secret]) {
	return func(c store.Change[*corev1.Secret]) {
		if c.Now != nil && accountOfSecret(c.Now) != "" {
			q.Add(c.Key)
		}
		if was, ok := c.Was(ctx); c.Gone && ok && accountOfSecret(was) != "" {
			q.Add(c.Key)
		}
	}
}

// all queues the secrets of a service account.
func (k *tokenKeeper) all(ctx context.Context, q *queue.Queue, namespace, account string) {
	secrets, err := k.secrets.Objects(ctx, namespace+"/")
	if err != nil {
		return // the index reports all objects again
	}
	for _, s := range secrets {
		if accountOfSecret(s) == account {
			q.Add(s.Namespace + "/" + s.Name)
		}
	}
}

// look brings one secret up to date.
func (k *tokenKeeper) look(ctx context.Context, key string) error {
	namespace, name := split(key)
	s, ok, err := get(ctx, k.secrets, key)
	if err != nil {
		return err
	}
	if !ok {
		return k.unreference(ctx, namespace, name)
	}
	if accountOfSecret(s) == "" || s.DeletionTimestamp != nil {
		return nil
	}
	account, err := k.account(ctx, s)
	if err != nil {
		return err
	}
	if account == nil {
		return ignoreMissing(k.client.Delete(ctx, at(k.secretsAt, ""), request.Unchanged(s), nil))
	}
	if !k.wrong(s) {
		return nil
	}
	_, err = inprocess.Edit(ctx, k.client, at(k.secretsAt, ""), request.Unchanged(s), func(s *corev1.Secret) error {
		return k.fill(s, account)
	})
	return ignoreMissing(err)
}

// account returns the service account of a secret, or nil if there is none with its UID.
func (k *tokenKeeper) account(ctx context.Context, s *corev1.Secret) (*corev1.ServiceAccount, error) {
	key := s.Namespace + "/" + accountOfSecret(s)
	a, ok, err := get(ctx, k.accounts, key)
	if err != nil {
		return nil, err
	}
	if !ok { // the view may be behind
		if err := k.fresh(ctx); err != nil {
			return nil, err
		}
		if a, ok, err = get(ctx, k.accounts, key); !ok {
			return nil, err
		}
	}
	if uid := types.UID(s.Annotations[corev1.ServiceAccountUIDKey]); uid != "" && uid != a.UID {
		return nil, nil
	}
	return a, nil
}

// wrong says that a secret is incomplete.
func (k *tokenKeeper) wrong(s *corev1.Secret) bool {
	return len(k.rootCA) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], k.rootCA) ||
		len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0 || len(s.Data[corev1.ServiceAccountTokenKey]) == 0
}

// fill completes a secret.
func (k *tokenKeeper) fill(s *corev1.Secret, account *corev1.ServiceAccount) error {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	if len(k.rootCA) > 0 {
		s.Data[corev1.ServiceAccountRootCAKey] = k.rootCA
	}
	if len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		s.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if len(s.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := k.signer.SignLegacy(account, s.Name)
		if err != nil {
			return err
		}
		s.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	return nil
}

// unreference removes a deleted secret from the service accounts that name it.
func (k *tokenKeeper) unreference(ctx context.Context, namespace, secret string) error {
	accounts, err := k.accounts.Objects(ctx, namespace+"/")
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if !names(a.Secrets, secret) {
			continue
		}
		_, err := inprocess.Edit(ctx, k.client, at(k.accountsAt, ""), request.Unchanged(a), func(a *corev1.ServiceAccount) error {
			var rest []corev1.ObjectReference
			for _, r := range a.Secrets {
				if r.Name != secret {
					rest = append(rest, r)
				}
			}
			a.Secrets = rest
			return nil
		})
		if err := ignoreMissing(err); err != nil {
			return err
		}
	}
	return nil
}

func names(refs []corev1.ObjectReference, name string) bool {
	for _, r := range refs {
		if r.Name == name {
			return true
		}
	}
	return false
}

// runTokenCleaner deletes bootstrap tokens when they expire.
func runTokenCleaner(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(corev1.Resource("secrets"))
	secrets := engine.IndexOf[*corev1.Secret](ep)
	look := func(ctx context.Context, key string) (time.Duration, error) {
		s, ok, err := get(ctx, secrets, key)
		if !ok {
			return 0, err
		}
		expiration, ok := s.Data["expiration"]
		if !ok || len(expiration) == 0 {
			return 0, nil
		}
		// A token with an unreadable expiration cannot be used, so it counts as expired.
		end, err := time.Parse(time.RFC3339, string(expiration))
		if left := end.Sub(c.Clock.Now()); err == nil && left > 0 {
			return left, nil
		}
		return 0, ignoreMissing(cl.Delete(ctx, at(ep, ""), request.Unchanged(s), nil))
	}
	c.work(ctx, "token_cleaner", look, follow(secrets, func(c store.Change[*corev1.Secret]) (string, bool) {
		return c.Key, c.Namespace() == metav1.NamespaceSystem && c.Now != nil && c.Now.Type == corev1.SecretTypeBootstrapToken
	}))
}
