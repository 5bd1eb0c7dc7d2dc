package main

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// databases gives each Database in each plane a host and a secret.
type databases struct {
	manager mcmanager.Manager
}

// setUp adds the controller to a manager.
func setUp(manager mcmanager.Manager, options mccontroller.Options) error {
	return mcbuilder.ControllerManagedBy(manager).Named("databases").For(&Database{}).Owns(&corev1.Secret{}).
		WithOptions(options).Complete(&databases{manager})
}

// Reconcile is part of reconcile.Reconciler. It is as in one cluster, except for its first line.
func (d *databases) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	plane, err := d.manager.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return ctrl.Result{}, err // of a plane that is gone, multicluster-runtime says no more
	}
	c := plane.GetClient()
	var db Database
	if err := c.Get(ctx, request.NamespacedName, &db); err != nil || db.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	status := DatabaseStatus{Host: fmt.Sprintf("%s.%s.%s.databases.example", db.Name, db.Namespace, request.ClusterName), Secret: db.Name + "-password"}
	err = d.keepSecret(ctx, c, &db, status.Secret)
	if apierrors.IsForbidden(err) {
		// Trying again does not help before the binding accepts more claims.
		status.Secret, status.Message = "", "there is no secret: the binding does not accept the claim to secrets"
		err = nil
	}
	if err != nil || db.Status == status {
		return ctrl.Result{}, err
	}
	before := db.DeepCopyObject().(*Database)
	db.Status = status
	return ctrl.Result{}, client.IgnoreNotFound(c.Status().Patch(ctx, &db, client.MergeFrom(before)))
}

// keepSecret makes the secret of a database, unless it is there. The plane deletes it with its owner.
func (d *databases) keepSecret(ctx context.Context, c client.Client, db *Database, name string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: name, Labels: map[string]string{"databases": "yes"}}}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if !apierrors.IsNotFound(err) {
		return err
	}
	secret.StringData = map[string]string{"password": rand.Text()}
	if err := controllerutil.SetControllerReference(db, secret, c.Scheme()); err != nil {
		return err
	}
	err = c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache does not have it yet
	}
	return err
}
