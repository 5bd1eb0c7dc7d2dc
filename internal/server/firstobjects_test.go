package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// soon waits until f returns "".
func soon(t *testing.T, f func() string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		missing := f()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(missing)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestRestart has a server start on what an earlier one has left, changed in between.
func TestRestart(t *testing.T) {
	t.Parallel()
	g := shared(t)
	fresh := func(prefix string, f func(k *kubernetes.Clientset)) {
		t.Helper()
		t.Run("before", func(t *testing.T) { f(clientOf(plane(t, g, prefix))) })
	}
	noError := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// The binding of public information comes of the older binding of discovery, from which an administrator has taken the
	// unauthenticated.
	t.Run("split binding", func(t *testing.T) {
		fresh("/split", func(k *kubernetes.Clientset) {
			bindings := k.RbacV1().ClusterRoleBindings()
			noError(t, bindings.Delete(t.Context(), "system:public-info-viewer", metav1.DeleteOptions{}))
			old, err := bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{})
			noError(t, err)
			old.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
			old.Labels = map[string]string{"ours": "yes"}
			old.Subjects = []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}}
			_, err = bindings.Update(t.Context(), old, metav1.UpdateOptions{})
			noError(t, err)
			noError(t, k.RbacV1().ClusterRoles().Delete(t.Context(), "system:aggregate-to-view", metav1.DeleteOptions{}))
			_, err = k.RbacV1().ClusterRoles().Patch(t.Context(), "view", types.MergePatchType,
				[]byte(`{"aggregationRule":null,"rules":[{"apiGroups":["example.com"],"resources":["wonders"],"verbs":["get"]}]}`), metav1.PatchOptions{})
			noError(t, err)
		})
		k := clientOf(plane(t, g, "/split"))
		b, err := k.RbacV1().ClusterRoleBindings().Get(t.Context(), "system:public-info-viewer", metav1.GetOptions{})
		noError(t, err)
		if len(b.Subjects) != 1 || b.Subjects[0].Name != "system:authenticated" || b.Annotations[rbacv1.AutoUpdateAnnotationKey] != "false" ||
			b.Labels["ours"] != "yes" || b.RoleRef.Name != "system:public-info-viewer" {
			t.Errorf("%+v", b)
		}
		part, err := k.RbacV1().ClusterRoles().Get(t.Context(), "system:aggregate-to-view", metav1.GetOptions{})
		noError(t, err)
		if !slices.ContainsFunc(part.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "wonders") }) {
			t.Errorf("what an administrator had added to view is lost: %v", part.Rules)
		}
	})
	t.Run("new cluster", func(t *testing.T) {
		b, err := clientOf(plane(t, g, "/new")).RbacV1().ClusterRoleBindings().Get(t.Context(), "system:public-info-viewer", metav1.GetOptions{})
		noError(t, err)
		if len(b.Subjects) != 2 {
			t.Errorf("%v", b.Subjects)
		}
	})

	// A webhook that refuses everything, because it is not there, keeps no server from becoming ready; what it has held up
	// comes once it is gone.
	t.Run("broken webhook", func(t *testing.T) {
		const tracking = "kube-apiserver-legacy-service-account-token-tracking"
		all := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}
		none := admissionv1.SideEffectClassNone
		fresh("/webhook", func(k *kubernetes.Clientset) {
			noError(t, k.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), tracking, metav1.DeleteOptions{}))
			_, err := k.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Webhooks: []admissionv1.ValidatingWebhook{{
					Name: "broken.example.com", Rules: all, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
					ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "missing"}}}},
			}, metav1.CreateOptions{})
			noError(t, err)
		})
		k := clientOf(plane(t, g, "/webhook")) // returns when it is ready
		if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err == nil {
			t.Error("the webhook refuses nothing")
		}
		noError(t, k.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "broken", metav1.DeleteOptions{}))
		soon(t, func() string {
			if _, err := k.CoreV1().ConfigMaps("kube-system").Get(t.Context(), tracking, metav1.GetOptions{}); err != nil {
				return err.Error()
			}
			return ""
		})
	})

	// The default range is deleted, and comes again.
	t.Run("default range", func(t *testing.T) {
		s := plane(t, g, "/range")
		k := clientOf(s)
		d := &controlplane.DefaultRange{Raw: s.base.objects, Client: s.base.itself, Now: time.Now, Log: s.base.log, CIDRs: []string{"10.9.0.0/24"}}
		look := func() {
			t.Helper()
			noError(t, d.Keep(t.Context()))
		}
		have := func() *networkingv1.ServiceCIDR {
			t.Helper()
			r, err := k.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{})
			noError(t, err)
			return r
		}
		old := have()
		if look(); !slices.Equal(have().Spec.CIDRs, old.Spec.CIDRs) || slices.Contains(old.Spec.CIDRs, d.CIDRs[0]) {
			t.Errorf("a range that is there has become %v", have().Spec.CIDRs)
		}
		now := int64(0)
		noError(t, k.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "kubernetes", metav1.DeleteOptions{GracePeriodSeconds: &now}))
		_, err := k.NetworkingV1().ServiceCIDRs().Patch(t.Context(), "kubernetes", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		look()
		if got := have(); !slices.Equal(got.Spec.CIDRs, d.CIDRs) {
			t.Errorf("after the deletion of the old one: %v", got)
		}
		d.CIDRs = append(d.CIDRs, "fd00:9::/112")
		// Who writes its status meanwhile makes the look begin again.
		for look(); !slices.Equal(have().Spec.CIDRs, d.CIDRs) && t.Context().Err() == nil; look() {
		}
		look()
		if c := have().Status.Conditions; len(c) != 1 || !strings.HasPrefix(c[0].Message, "Kubernetes") {
			t.Errorf("conditions %v", c)
		}
	})

	// A service that came into etcd by another way than the API gets its address.
	t.Run("service without address", func(t *testing.T) {
		s := plane(t, g, "/address")
		stored := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "odd", UID: "1"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.99", ClusterIPs: []string{"10.0.0.99"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
		_, err := s.base.objects.Create(context.WithoutCancel(t.Context()), corev1.Resource("services"), stored)
		noError(t, err)
		soon(t, func() string {
			a, err := clientOf(s).NetworkingV1().IPAddresses().Get(t.Context(), "10.0.0.99", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if a.Spec.ParentRef.Name != "odd" {
				return "it is another's"
			}
			return ""
		})
	})

	// While a definition cannot be read, it is not known which groups and versions there are: the APIService of one that is
	// gone stays until then, and those of definitions that are there are made.
	t.Run("unreadable definition", func(t *testing.T) {
		const definitions, apiServices = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices"
		broken := kv.Op{Key: "/unreadable/apiextensions.k8s.io/customresourcedefinitions/broken.example.com", Value: []byte("broken")}
		commit := func(op kv.Op) {
			t.Helper()
			_, err := g.DB.Commit(t.Context(), kv.Txn{Then: []kv.Op{op}})
			noError(t, err)
		}
		commit(broken)
		s := plane(t, g, "/unreadable")
		do(t, s, "POST", apiServices, "application/json", "", []byte(`{"metadata":{"name":"v1.example.com","labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}},
			"spec":{"group":"example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":100}}`), 201)
		do(t, s, "POST", definitions, "application/json", "", []byte(`{"metadata":{"name":"wonders.example.com"},"spec":{"group":"example.com","scope":"Cluster",
			"names":{"plural":"wonders","kind":"Wonder"},"versions":[{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`), 201)
		has := func(version string) bool {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, httptest.NewRequestWithContext(inprocess.WithUser(t.Context(), masters), "GET", apiServices+"/"+version+".example.com", nil))
			return w.Code == 200
		}
		await := func(version string, want bool) {
			t.Helper()
			soon(t, func() string {
				if has(version) != want {
					return fmt.Sprintf("the APIService of %s is there: %t", version, !want)
				}
				return ""
			})
		}
		await("v2", true) // made when all of the group has been looked at
		if !has("v1") {
			t.Error("an APIService is deleted that may be needed")
		}
		broken.Delete, broken.Value = true, nil
		commit(broken)
		await("v1", false)
	})

	// Some priority classes cannot be deleted by their names. As in kube-apiserver, a collection can be.
	t.Run("priority classes", func(t *testing.T) {
		classes := clientOf(plane(t, g, "/classes")).SchedulingV1().PriorityClasses()
		if err := classes.Delete(t.Context(), "system-node-critical", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("by its name: %v", err)
		}
		noError(t, classes.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		if left, err := classes.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}
