// Package controller has the controller of Sites.
package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	webv1 "example.com/sites/api/v1"
)

// Finalizer keeps a Site until the controller has let go of it.
const Finalizer = "web.example.com/archive"

// SiteReconciler reconciles a Site object.
type SiteReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=web.example.com,resources=sites,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=web.example.com,resources=sites/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=web.example.com,resources=sites/finalizers,verbs=update

// Reconcile writes the page of a Site to a ConfigMap that the Site owns. When the Site is deleted it leaves an archive.
func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &webv1.Site{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(site, Finalizer) {
			return ctrl.Result{}, nil
		}
		archive := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name + "-archive", Namespace: site.Namespace}}
		if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, archive, func() error {
			archive.Data = map[string]string{"title": site.Spec.Title}
			return nil
		}); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(site, Finalizer)
		return ctrl.Result{}, r.Update(ctx, site)
	}
	if controllerutil.AddFinalizer(site, Finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": "<h1>" + site.Spec.Title + "</h1>"}
		return controllerutil.SetControllerReference(site, page, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}
	if meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Written", ObservedGeneration: site.Generation}) {
		return ctrl.Result{}, r.Status().Update(ctx, site)
	}
	return ctrl.Result{}, nil
}

// SetupWithManager sets up the controller with the Manager.
func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&webv1.Site{}).Owns(&corev1.ConfigMap{}).Named("site").Complete(r)
}
