package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// await polls until f returns "".
func await(t *testing.T, f func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		missing := f(ctx)
		if missing == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(missing)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An aggregated role has the rules of the roles that it selects, and of no
// others, as they come, change and go.
func TestAggregation(t *testing.T) {
	t.Parallel()
	roles := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config()).RbacV1().ClusterRoles()
	rule := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	role := func(name string, labels map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
	}
	create := func(r *rbacv1.ClusterRole) {
		t.Helper()
		_, err := roles.Create(t.Context(), r, metav1.CreateOptions{})
		must(t, err)
	}
	has := func(name string, want ...string) {
		t.Helper()
		await(t, func(ctx context.Context) string {
			r, err := roles.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			var got []string
			for _, rule := range r.Rules {
				got = append(got, rule.Resources...)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Sprintf("%s is about %v, want %v", name, got, want)
			}
			return ""
		})
	}
	sum := role("sum", nil)
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"sum": "yes"}}}}
	create(role("one", map[string]string{"sum": "yes"}, rule("ones")))
	create(role("other", nil, rule("others")))
	create(sum)
	has("sum", "ones")
	create(role("two", map[string]string{"sum": "yes"}, rule("twos")))
	has("sum", "ones", "twos")
	_, err := roles.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"sum":null}}}`), metav1.PatchOptions{})
	must(t, err)
	has("sum", "twos")
	must(t, roles.Delete(t.Context(), "two", metav1.DeleteOptions{}))
	has("sum")
	// The rules of roles with an aggregation label are in the cluster's roles.
	create(role("more", map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}, rule("wonders")))
	await(t, func(ctx context.Context) string {
		for _, name := range []string{"view", "edit", "admin"} {
			if r, err := roles.Get(ctx, name, metav1.GetOptions{}); err != nil || !strings.Contains(fmt.Sprint(r.Rules), "wonders") {
				return fmt.Sprintf("%s has not got them: %v", name, err)
			}
		}
		return ""
	})
}

// The status of a policy shows its type errors, for built-in and custom kinds,
// and is updated when the policy changes.
func TestPolicyStatus(t *testing.T) {
	t.Parallel()
	policies := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config()).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	p := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.spec.replicas > '5'"}, {Expression: "object.spec.replicas > 5"}},
		},
	}
	p, err := policies.Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	warnings := func(generation int64) (out []admissionv1.ExpressionWarning) {
		await(t, func(ctx context.Context) string {
			if p, err = policies.Get(ctx, "p", metav1.GetOptions{}); err != nil || p.Status.ObservedGeneration < generation {
				return fmt.Sprintf("status %+v, %v", p.Status, err)
			}
			return ""
		})
		if p.Status.TypeChecking != nil {
			out = p.Status.TypeChecking.ExpressionWarnings
		}
		return out
	}
	got := warnings(1)
	if len(got) != 1 || got[0].FieldRef != "spec.validations[0].expression" || !strings.Contains(got[0].Warning, "apps/v1, Kind=Deployment: ERROR:") {
		t.Errorf("warnings %+v", got)
	}
	p.Spec.Validations = p.Spec.Validations[1:]
	p, err = policies.Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	if got := warnings(p.Generation); len(got) != 0 {
		t.Errorf("warnings %+v", got)
	}
}

// things are custom resources of a test.
var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

func defineThings(t *testing.T, d dynamic.Interface) {
	t.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: things.Resource + "." + things.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: things.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: things.Resource, Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: things.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(def)
	must(t, err)
	_, err = d.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).
		Create(t.Context(), &unstructured.Unstructured{Object: m}, metav1.CreateOptions{})
	must(t, err)
	await(t, func(ctx context.Context) string {
		if _, err := d.Resource(things).List(ctx, metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func thing(name string, finalizers ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	u.SetName(name)
	u.SetFinalizers(finalizers)
	return u
}

// Deleting a namespace also deletes its custom resources. One with a finalizer
// holds the namespace, whose status says so.
func TestNamespaceOfCustomResources(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	d, k := dynamic.NewForConfigOrDie(s.Config()), kubernetes.NewForConfigOrDie(s.Config())
	defineThings(t, d)
	_, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
	must(t, err)
	for _, u := range []*unstructured.Unstructured{thing("free"), thing("held", "example.com/hold")} {
		_, err := d.Resource(things).Namespace("work").Create(t.Context(), u, metav1.CreateOptions{})
		must(t, err)
	}
	must(t, k.CoreV1().Namespaces().Delete(t.Context(), "work", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		ns, err := k.CoreV1().Namespaces().Get(ctx, "work", metav1.GetOptions{})
		must(t, err)
		said := fmt.Sprint(ns.Status.Conditions)
		for _, want := range []string{"things.example.com has 1 resource instances", "example.com/hold in 1 resource instances"} {
			if !strings.Contains(said, want) {
				return fmt.Sprintf("%q is missing in %s", want, said)
			}
		}
		return ""
	})
	if _, err := d.Resource(things).Namespace("work").Get(t.Context(), "free", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what nothing holds: %v", err)
	}
	_, err = d.Resource(things).Namespace("work").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	must(t, err)
	await(t, func(ctx context.Context) string {
		if _, err := k.CoreV1().Namespaces().Get(ctx, "work", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace stays: %v", err)
		}
		return ""
	})
}

// The pods of a namespace are deleted first: while one of them is terminating,
// or cannot be deleted, all other objects stay, including those that confine
// it.
func TestNamespaceLosesPodsFirst(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	d, k := dynamic.NewForConfigOrDie(s.Config()), kubernetes.NewForConfigOrDie(s.Config())
	defineThings(t, d)
	_, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
	must(t, err)
	grace := int64(3600)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ends", Finalizers: []string{"example.com/hold"}}, Spec: corev1.PodSpec{
		NodeName: "node", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	await(t, func(ctx context.Context) string {
		if _, err := k.CoreV1().Pods("work").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err.Error() // its service account is created in a moment
		}
		return ""
	})
	_, err = k.NetworkingV1().NetworkPolicies("work").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "confine"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = d.Resource(things).Namespace("work").Create(t.Context(), thing("free"), metav1.CreateOptions{})
	must(t, err)
	must(t, k.CoreV1().Namespaces().Delete(t.Context(), "work", metav1.DeleteOptions{}))
	await(t, func(ctx context.Context) string {
		ns, err := k.CoreV1().Namespaces().Get(ctx, "work", metav1.GetOptions{})
		must(t, err)
		said := fmt.Sprint(ns.Status.Conditions)
		for _, want := range []string{"Some resources are remaining: pods. has 1 resource instances}", "example.com/hold in 1 resource instances"} {
			if !strings.Contains(said, want) {
				return fmt.Sprintf("%q is missing in %s", want, said)
			}
		}
		return ""
	})
	p, err := k.CoreV1().Pods("work").Get(t.Context(), "ends", metav1.GetOptions{})
	must(t, err)
	if p.DeletionTimestamp == nil {
		t.Error("the pod is not asked to end")
	}
	stays := func() {
		t.Helper()
		if _, err := k.NetworkingV1().NetworkPolicies("work").Get(t.Context(), "confine", metav1.GetOptions{}); err != nil {
			t.Errorf("the policy that confines the pod: %v", err)
		}
		if _, err := d.Resource(things).Namespace("work").Get(t.Context(), "free", metav1.GetOptions{}); err != nil {
			t.Errorf("a custom resource: %v", err)
		}
	}
	stays()
	now := int64(0)
	must(t, k.CoreV1().Pods("work").Delete(t.Context(), "ends", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	stays() // the finalizer still holds the pod
	_, err = k.CoreV1().Pods("work").Patch(t.Context(), "ends", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	must(t, err)
	await(t, func(ctx context.Context) string {
		if _, err := k.CoreV1().Namespaces().Get(ctx, "work", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace stays: %v", err)
		}
		return ""
	})
}

// Every namespace has its default service account, which is created again if it
// is deleted.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(t).Config())
	_, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{})
	must(t, err)
	there := func(other types.UID) (uid types.UID) {
		await(t, func(ctx context.Context) string {
			sa, err := k.CoreV1().ServiceAccounts("work").Get(ctx, "default", metav1.GetOptions{})
			if err != nil || sa.UID == other {
				return fmt.Sprintf("no new account: %v", err)
			}
			uid = sa.UID
			return ""
		})
		return uid
	}
	first := there("")
	must(t, k.CoreV1().ServiceAccounts("work").Delete(t.Context(), "default", metav1.DeleteOptions{}))
	there(first)
}
