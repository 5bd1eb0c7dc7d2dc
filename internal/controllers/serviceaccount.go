package controllers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

const defaultAccount = "default"

// runServiceAccounts gives every active namespace its default service account.
func runServiceAccounts(ctx context.Context, c Config, cl *inprocess.Client) {
	k := &accountKeeper{
		namespaces: engine.IndexOf[*corev1.Namespace](c.endpoint(corev1.Resource("namespaces"))),
		accounts:   c.endpoint(corev1.Resource("serviceaccounts")),
		client:     cl,
	}
	c.work(ctx, "serviceaccount", once(k.ensure),
		follow(k.namespaces, func(c store.Change[*corev1.Namespace]) (string, bool) { return c.Name(), !c.Gone }),
		follow(engine.IndexOf[*corev1.ServiceAccount](k.accounts), func(c store.Change[*corev1.ServiceAccount]) (string, bool) {
			return c.Namespace(), c.Gone && c.Name() == defaultAccount
		}))
}

type accountKeeper struct {
	namespaces *store.Index[*corev1.Namespace]
	accounts   *engine.Endpoint
	client     *inprocess.Client
}

func (k *accountKeeper) ensure(ctx context.Context, namespace string) error {
	ns, err := k.namespaces.Get(ctx, namespace)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	if _, err := k.accounts.View().Get(ctx, namespace+"/"+defaultAccount); err == nil {
		return nil
	}
	_, err = k.client.Create(ctx, in(k.accounts, namespace), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: defaultAccount}})
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
