package planes_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kanzen-io/kanzen/multicluster/internal/testserver"
	"github.com/kanzen-io/kanzen/multicluster/planes"
)

// all has several take part in engagements.
type all []multicluster.Aware

// Engage is part of multicluster.Aware.
func (a all) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	for _, one := range a {
		if err := one.Engage(ctx, name, cl); err != nil {
			return err
		}
	}
	return nil
}

// counting is a provider whose engagements are counted.
type counting struct {
	*planes.Fleet
	*engagements
}

// Start is part of multicluster.ProviderRunnable.
func (c counting) Start(ctx context.Context, aware multicluster.Aware) error {
	return c.Fleet.Start(ctx, all{c.engagements, aware})
}

// stamp writes the plane into each ConfigMap with the label stamp.
func stamp(m mcmanager.Manager) error {
	skip := true // of the name, which a test that runs again has again
	options := controller.TypedOptions[mcreconcile.Request]{SkipNameValidation: &skip}
	return mcbuilder.ControllerManagedBy(m).Named("stamp").For(&corev1.ConfigMap{}).WithOptions(options).Complete(mcreconcile.Func(func(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
		cl, err := m.GetCluster(ctx, request.ClusterName)
		if err != nil {
			return ctrl.Result{}, err
		}
		var o corev1.ConfigMap
		if err := cl.GetClient().Get(ctx, request.NamespacedName, &o); err != nil || o.Labels["stamp"] == "" || o.Data["plane"] != "" {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		o.Data = map[string]string{"plane": request.ClusterName.String()}
		return ctrl.Result{}, cl.GetClient().Update(ctx, &o)
	}))
}

// stamped creates a ConfigMap and waits until it has been reconciled.
func stamped(t *testing.T, c client.Client, plane, name string) {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"stamp": "yes"}}}
	create(t, c, o)
	testserver.Await(t, plane+" is not reconciled", func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && o.Data["plane"] == plane
	})
}

// One controller reconciles the objects of all planes that are selected.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t)
	gold := labels.SelectorFromSet(labels.Set{"tier": "gold"})
	p, err := planes.NewFleet(s.Root, planes.FleetOptions{Selector: gold, Config: func(c *rest.Config) { c.QPS = -1 }})
	if err != nil {
		t.Fatal(err)
	}
	e := &engagements{}
	m := managed(t, s.Root, counting{p, e}, stamp)
	byStamp := func(o client.Object) []string { return []string{o.GetLabels()["stamp"]} }
	if err := m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "stamp", byStamp); err != nil {
		t.Fatal(err)
	}
	a := testserver.Client(t, s.Plane("a", "", "tier: gold"))
	b := testserver.Client(t, s.Plane("b", "", "tier: gold"))
	s.Plane("c", "")
	stamped(t, a, "a", "m")
	stamped(t, b, "b", "m")
	var list corev1.ConfigMapList
	if err := engagedCluster(t, p, "a").GetCache().List(t.Context(), &list, client.MatchingFields{"stamp": "yes"}); err != nil || len(list.Items) != 1 {
		t.Errorf("%d %v", len(list.Items), err)
	}
	gone(t, p, "c")
	// Out of the selection, and in again.
	root := testserver.Client(t, s.Root)
	label := func(tier string) {
		plane := testserver.Object(t, "{apiVersion: planes.kanzen.io/v1, kind: Plane, metadata: {name: b}}")
		if err := root.Patch(t.Context(), plane, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%q}}}`, tier))); err != nil {
			t.Fatal(err)
		}
	}
	label("silver")
	gone(t, p, "b")
	e.becomes(t, "b", 1, false)
	label("gold")
	e.becomes(t, "b", 2, true)
	stamped(t, b, "b", "again")
	// Other credentials.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: planes.Namespace, Name: "b-kubeconfig"}}
	if err := root.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["value"] = append(secret.Data["value"], "# renewed\n"...)
	if err := root.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	e.becomes(t, "b", 3, true)
	stamped(t, b, "b", "renewed")
	s.Stop()
	s.Start()
	stamped(t, a, "a", "after")
	e.becomes(t, "a", 1, true)
	s.DeletePlane("a")
	gone(t, p, "a")
	a = testserver.Client(t, s.Plane("a", "", "tier: gold"))
	stamped(t, a, "a", "m")
	e.becomes(t, "a", 2, true)
}
