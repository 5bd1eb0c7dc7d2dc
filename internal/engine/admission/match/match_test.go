package match_test

import (
	"context"
	"errors"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
)

// versions of horizontalpodautoscalers; nothing is converted here.
type versions []admission.Version

func (v versions) All(string) []admission.Version { return v }
func (versions) Convert(_ context.Context, obj runtime.Object, _ schema.GroupVersionKind) (runtime.Object, error) {
	return obj, nil
}
func (versions) Hub(_ context.Context, obj runtime.Object) (runtime.Object, error) { return obj, nil }
func (versions) Complete(runtime.Object) error                                     { return nil }
func (versions) Types() (managedfields.TypeConverter, error)                       { return nil, errors.New("none") }

func version(group, v, resource, kind string) admission.Version {
	gv := schema.GroupVersion{Group: group, Version: v}
	return admission.Version{Resource: gv.WithResource(resource), Kind: gv.WithKind(kind)}
}

func write(op admission.Operation, v admission.Version, sub, namespace, name string) *admission.Attributes {
	return &admission.Attributes{Operation: op, Resource: v.Resource, Kind: v.Kind, Subresource: sub, Namespace: namespace, Name: name}
}

func rule(ops []admissionv1.OperationType, groups, vs, resources string, names ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{ResourceNames: names, RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: ops, Rule: admissionv1.Rule{APIGroups: []string{groups}, APIVersions: []string{vs}, Resources: []string{resources}}}}
}

func TestRules(t *testing.T) {
	all := []admissionv1.OperationType{"*"}
	create := []admissionv1.OperationType{"CREATE"}
	pods, spaces := version("", "v1", "pods", "Pod"), version("", "v1", "namespaces", "Namespace")
	v1, v2 := version("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"), version("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
	hpa := write("CREATE", v1, "", "n", "h")
	hpa.Versions = versions{v2, v1}
	scoped := func(s admissionv1.ScopeType) admissionv1.NamedRuleWithOperations {
		r := rule(all, "*", "*", "*")
		r.Scope = &s
		return r
	}
	pod := write("CREATE", pods, "", "n", "p")
	for _, c := range []struct {
		name  string
		rules match.Rules
		a     *admission.Attributes
		want  admission.Version // zero: no match
	}{
		{"exact", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(create, "", "v1", "pods")}}, pod, pods},
		{"other operation", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(create, "", "v1", "pods")}}, write("DELETE", pods, "", "n", "p"), admission.Version{}},
		{"wild", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*")}}, pod, pods},
		{"wild is no subresource", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*")}}, write("CREATE", pods, "exec", "n", "p"), admission.Version{}},
		{"all subresources", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "pods/*")}}, write("CREATE", pods, "exec", "n", "p"), pods},
		{"a subresource of all", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*/exec")}}, write("CONNECT", pods, "exec", "n", "p"), pods},
		{"other group", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "apps", "*", "*")}}, pod, admission.Version{}},
		{"namespaced", match.Rules{Include: []admissionv1.NamedRuleWithOperations{scoped("Namespaced")}}, pod, pods},
		{"a namespace is in the cluster", match.Rules{Include: []admissionv1.NamedRuleWithOperations{scoped("Namespaced")}}, write("CREATE", spaces, "", "n", "n"), admission.Version{}},
		{"cluster", match.Rules{Include: []admissionv1.NamedRuleWithOperations{scoped("Cluster")}}, write("CREATE", spaces, "", "n", "n"), spaces},
		{"named", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*", "p")}}, pod, pods},
		{"otherwise named", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*", "q")}}, pod, admission.Version{}},
		{"excluded", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*")}, Exclude: []admissionv1.NamedRuleWithOperations{rule(all, "", "v1", "pods", "p")}}, pod, admission.Version{}},
		{"no rules", match.Rules{}, pod, admission.Version{}},
		{"no rules is all", match.Rules{All: true}, pod, pods},
		{"version of its own first", match.Rules{Equivalent: true, Include: []admissionv1.NamedRuleWithOperations{rule(all, "*", "*", "*")}}, hpa, v1},
		{"equivalent", match.Rules{Equivalent: true, Include: []admissionv1.NamedRuleWithOperations{rule(all, "autoscaling", "v2", "*")}}, hpa, v2},
		{"exactly", match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule(all, "autoscaling", "v2", "*")}}, hpa, admission.Version{}},
		{"equivalent excluded", match.Rules{Equivalent: true, All: true, Exclude: []admissionv1.NamedRuleWithOperations{rule(all, "autoscaling", "v2", "*")}}, hpa, admission.Version{}},
	} {
		got, ok := c.rules.Match(c.a)
		if got != c.want || ok != (c.want != admission.Version{}) {
			t.Errorf("%s: got %v, %v", c.name, got, ok)
		}
		// A table finds the same, the first time and from its cache.
		table := match.NewTable([]*match.Rules{{}, &c.rules})
		for range 2 {
			got, ok := admission.Version{}, false
			for _, h := range table.Find(c.a) {
				if h.Index != 1 {
					t.Errorf("%s: hit %d", c.name, h.Index)
				}
				got, ok = table.Confirm(h, c.a)
			}
			if got != c.want || ok != (c.want != admission.Version{}) {
				t.Errorf("%s in a table: got %v, %v", c.name, got, ok)
			}
		}
	}
}

// A write that matches nothing allocates nothing.
func TestFindAllocatesNothing(t *testing.T) {
	var rules []*match.Rules
	for range 200 {
		rules = append(rules, &match.Rules{Include: []admissionv1.NamedRuleWithOperations{rule([]admissionv1.OperationType{"*"}, "batch", "v1", "jobs")}})
	}
	table := match.NewTable(rules)
	a := write("CREATE", version("", "v1", "pods", "Pod"), "", "n", "p")
	a.Versions = versions{version("", "v1", "pods", "Pod")}
	if len(table.Find(a)) != 0 {
		t.Fatal("a pod is no job")
	}
	if n := testing.AllocsPerRun(100, func() { table.Find(a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type namespaces map[string]labels.Set

func (n namespaces) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	if set, ok := n[name]; ok {
		return set, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
}

func TestSelectors(t *testing.T) {
	env := func(v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"env": v}}
	}
	labelled := func(v string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"env": v}}}
	}
	pods, spaces := version("", "v1", "pods", "Pod"), version("", "v1", "namespaces", "Namespace")
	pod := func(namespace string, obj, old runtime.Object) *admission.Attributes {
		a := write("UPDATE", pods, "", namespace, "p")
		a.Object, a.OldObject = obj, old
		return a
	}
	space := write("UPDATE", spaces, "", "prod", "prod")
	space.Object = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"env": "test"}}}
	all := &metav1.LabelSelector{}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Bad"}}}
	known := namespaces{"prod": {"env": "prod"}, "test": {"env": "test"}}
	for _, c := range []struct {
		name              string
		namespace, object *metav1.LabelSelector
		a                 *admission.Attributes
		want              bool
		err               func(error) bool
	}{
		{"all", all, all, pod("prod", labelled("a"), nil), true, nil},
		{"by namespace", env("prod"), all, pod("prod", labelled("a"), nil), true, nil},
		{"not by namespace", env("prod"), all, pod("test", labelled("a"), nil), false, nil},
		{"no namespace", env("prod"), all, pod("", labelled("a"), nil), true, nil},
		{"missing namespace", env("prod"), all, pod("none", labelled("a"), nil), false, apierrors.IsNotFound},
		{"missing, but another object", env("prod"), env("b"), pod("none", labelled("a"), nil), false, nil},
		{"a namespace by what it becomes", env("test"), all, space, true, nil},
		{"by object", all, env("a"), pod("prod", labelled("a"), nil), true, nil},
		{"by what the object was", all, env("a"), pod("prod", labelled("b"), labelled("a")), true, nil},
		{"not by object", all, env("a"), pod("prod", labelled("b"), labelled("c")), false, nil},
		{"options have no labels", all, env("a"), pod("prod", &corev1.PodExecOptions{}, nil), false, nil},
		{"unreadable", bad, all, pod("prod", labelled("a"), nil), false, apierrors.IsInternalError},
		{"nobody", nil, all, pod("prod", labelled("a"), nil), false, nil},
	} {
		s := match.NewSelectors(c.namespace, c.object)
		got, err := s.Match(t.Context(), c.a, known)
		if got != c.want || (err != nil) != (c.err != nil) || err != nil && !c.err(err) {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
	}
}
