package controlplane_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// What every cluster has is made again when it was deleted, or says nothing any more.
func TestKeep(t *testing.T) {
	t.Parallel()
	clock := kanzentest.NewClock(time.Time{})
	// The plugin refuses to delete three of the namespaces, as in kube-apiserver.
	s := kanzentest.Start(t, kanzentest.WithClock(clock), kanzentest.Flags("--disable-admission-plugins=NamespaceLifecycle"))
	all, k := metadata.NewForConfigOrDie(s.Config()), kubernetes.NewForConfigOrDie(s.Config())
	soon := func(what string, f func(ctx context.Context) bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for !f(ctx) {
			clock.Advance(20 * time.Second)
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	leases, err := k.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity"})
	if err != nil || len(leases.Items) != 1 {
		t.Fatal(leases, err)
	}
	const tracking = "kube-apiserver-legacy-service-account-token-tracking"
	for _, o := range []struct{ group, resource, namespace, name string }{
		{"", "configmaps", "kube-system", "extension-apiserver-authentication"},
		{"", "configmaps", "kube-system", tracking},
		{"coordination.k8s.io", "leases", "kube-system", leases.Items[0].Name},
		{"", "services", "default", "kubernetes"},
		{"flowcontrol.apiserver.k8s.io", "flowschemas", "", "exempt"},
		{"flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "", "catch-all"},
		{"", "namespaces", "", "kube-node-lease"},
		{"", "namespaces", "", "kube-public"},
		{"", "namespaces", "", "default"},
		{"", "namespaces", "", "kube-system"},
	} {
		r := all.Resource(schema.GroupVersionResource{Group: o.group, Version: "v1", Resource: o.resource}).Namespace(o.namespace)
		old, err := r.Get(t.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s %s: %v", o.resource, o.name, err)
		}
		if err := r.Delete(t.Context(), o.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("%s %s: %v", o.resource, o.name, err)
		}
		soon(o.resource+" "+o.name, func(ctx context.Context) bool {
			now, err := r.Get(ctx, o.name, metav1.GetOptions{})
			return err == nil && now.UID != old.UID
		})
	}
	maps := k.CoreV1().ConfigMaps("kube-system")
	soon("the tracking of tokens is there after its namespace", func(ctx context.Context) bool {
		_, err := maps.Patch(ctx, tracking, types.MergePatchType, []byte(`{"data":{"since":"long ago","ours":"yes"}}`), metav1.PatchOptions{})
		return err == nil
	})
	soon("the date is one", func(ctx context.Context) bool {
		m, err := maps.Get(ctx, tracking, metav1.GetOptions{})
		if err != nil {
			return false
		}
		_, err = time.Parse(time.DateOnly, m.Data["since"])
		return err == nil && m.Data["ours"] == "yes"
	})
}
