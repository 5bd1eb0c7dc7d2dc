package controllers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

const defaultAccount = "default"

// runServiceAccounts gives every active namespace its default service account.
func runServiceAccounts(ctx context.Context, c Config, cl *client) error {
	eps := c.Endpoints()
	namespaces, accounts := endpoint(eps, "", "namespaces"), endpoint(eps, "", "serviceaccounts")
	q := queue.New("serviceaccount", c.Clock, c.Guard, c.Log)
	done := make(chan error, 2)
	go func() {
		done <- namespaces.View().Follow(ctx, store.Follow{Changed: func(i *store.Item) { q.Add(i.Name()) }})
	}()
	go func() {
		done <- accounts.View().Follow(ctx, store.Follow{
			Changed: func(*store.Item) {},
			Gone: func(i *store.Item) {
				if i.Name() == defaultAccount {
					q.Add(i.Namespace())
				}
			},
		})
	}()
	q.Run(ctx, func(ctx context.Context, ns string) error { return ensureAccount(ctx, namespaces, accounts, cl, ns) })
	return errors.Join(<-done, <-done)
}

func ensureAccount(ctx context.Context, namespaces, accounts *engine.Endpoint, cl *client, ns string) error {
	i, err := namespaces.View().Get(ctx, ns)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	obj, err := namespaces.Decode(i)
	if err != nil {
		return err
	}
	if n := obj.(*corev1.Namespace); n.DeletionTimestamp != nil || n.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	if _, err := accounts.View().Get(ctx, ns+"/"+defaultAccount); err == nil {
		return nil
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: defaultAccount}}
	err = cl.do(ctx, "POST", collection(accounts.GVR, ns), sa, nil)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
