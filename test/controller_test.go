package test

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// finalizer is how the reconciler learns of deletions in time.
const finalizer = "example.com/summary"

// reconciler keeps a ConfigMap that sums up each Deployment.
type reconciler struct{ client.Client }

func summary(d *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-summary"}}
}

// Reconcile is part of reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d appsv1.Deployment
	if err := r.Get(ctx, req.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cm := summary(&d)
	if !d.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(r.Delete(ctx, cm)); err != nil {
			return ctrl.Result{}, err
		}
		before := d.DeepCopy()
		controllerutil.RemoveFinalizer(&d, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &d, client.MergeFrom(before)))
	}
	if controllerutil.AddFinalizer(&d, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &d)
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{
			"image":    d.Spec.Template.Spec.Containers[0].Image,
			"replicas": strconv.Itoa(int(*d.Spec.Replicas)),
		}
		return controllerutil.SetControllerReference(&d, cm, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if d.Status.ObservedGeneration != d.Generation {
		d.Status.ObservedGeneration = d.Generation
		return ctrl.Result{}, r.Status().Update(ctx, &d)
	}
	return ctrl.Result{}, nil
}

// TestControllerRuntime runs a manager with one controller, as operators have.
func TestControllerRuntime(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	for name, config := range map[string]*rest.Config{"in-process": s.Config(), "socket": s.SocketConfig()} {
		t.Run(name, func(t *testing.T) {
			mgr, err := ctrl.NewManager(config, managerOptions(name))
			if err != nil {
				t.Fatal(err)
			}
			testManager(t, mgr)
		})
	}
}

func managerOptions(id string) ctrl.Options {
	yes := true
	return ctrl.Options{
		Logger:                  logr.Discard(),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        id,
		LeaderElectionNamespace: metav1.NamespaceDefault,
		// So that the next one need not wait until the lease has run out.
		LeaderElectionReleaseOnCancel: true,
		// Two managers of this process have a controller of the same name.
		Controller: ctrlconfig.Controller{SkipNameValidation: &yes},
	}
}

func testManager(t *testing.T, mgr ctrl.Manager) {
	r := &reconciler{mgr.GetClient()}
	if err := ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		t.Fatal(err)
	}
	byImage := func(o client.Object) []string {
		return []string{o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image}
	}
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &appsv1.Deployment{}, "image", byImage); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not sync")
	}

	// The live client does, the cache sees.
	live, err := client.New(mgr.GetConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := deployment("web", "nginx:1", 2)
	if err := live.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	sumsUp := func(image, replicas string) func(context.Context) bool {
		return func(ctx context.Context) bool {
			cm := summary(d)
			err := live.Get(ctx, client.ObjectKeyFromObject(cm), cm)
			return err == nil && maps.Equal(cm.Data, map[string]string{"image": image, "replicas": replicas}) && metav1.IsControlledBy(cm, d)
		}
	}
	within(t, 20*time.Second, "the summary of a new deployment", sumsUp("nginx:1", "2"))

	before := d.DeepCopy()
	d.Spec.Template.Spec.Containers[0].Image = "nginx:2"
	if err := live.Patch(ctx, d, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, "the summary of a changed deployment", sumsUp("nginx:2", "2"))
	within(t, 20*time.Second, "the status is written", func(ctx context.Context) bool {
		return live.Get(ctx, client.ObjectKeyFromObject(d), d) == nil && d.Generation == 2 && d.Status.ObservedGeneration == 2
	})

	// What is taken away comes back: owned objects are watched.
	if err := live.Delete(ctx, summary(d)); err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, "the deleted summary is made again", sumsUp("nginx:2", "2"))

	within(t, 20*time.Second, "the cache finds it by image", func(ctx context.Context) bool {
		var list appsv1.DeploymentList
		err := r.List(ctx, &list, client.InNamespace(d.Namespace), client.MatchingFields{"image": "nginx:2"})
		return err == nil && len(list.Items) == 1
	})

	if err := live.Delete(ctx, d); err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, "the deployment and its summary are gone", func(ctx context.Context) bool {
		cm := summary(d)
		return apierrors.IsNotFound(live.Get(ctx, client.ObjectKeyFromObject(d), d)) && apierrors.IsNotFound(live.Get(ctx, client.ObjectKeyFromObject(cm), cm))
	})
}

func deployment(name, image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
			},
		},
	}
}
