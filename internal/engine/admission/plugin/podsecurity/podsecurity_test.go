package podsecurity

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/request"
)

const label = "pod-security.kubernetes.io/"

func namespace(labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		ns.Labels[label+labels[i]] = labels[i+1]
	}
	return ns
}

func newPod(image string, hostNetwork bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
		Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

// run returns the warnings and the error of a write.
func run(t *testing.T, objects admission.Objects, config string, a *admission.Attributes) ([]string, error) {
	t.Helper()
	p, err := New(objects, []byte(config), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, w := request.WithWarnings(context.Background())
	err = admission.Chain{p}.Validate(ctx, a)
	return w.Take(), err
}

func TestPods(t *testing.T) {
	exempt := "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\nexemptions: {usernames: [someone]}"
	strict := "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: baseline}"
	for _, c := range []struct {
		name     string
		ns       *corev1.Namespace
		config   string
		a        *admission.Attributes
		want     string
		warnings int
	}{
		{"no labels", namespace(), "", at.Create(admission.Pods, newPod("i", true)), "", 0},
		{"baseline", namespace("enforce", "baseline"), "", at.Create(admission.Pods, newPod("i", false)), "", 0},
		{"against baseline", namespace("enforce", "baseline"), "", at.Create(admission.Pods, newPod("i", true)), `violates PodSecurity "baseline:latest"`, 0},
		{"warned", namespace("warn", "baseline", "warn-version", "v1.20"), "", at.Create(admission.Pods, newPod("i", true)), "", 1},
		{"labels that mean nothing", namespace("enforce", "x"), "", at.Create(admission.Pods, newPod("i", true)), `"restricted:latest"`, 0},
		{"same image", namespace("enforce", "baseline"), "", at.Update(admission.Pods, "", newPod("i", true), newPod("i", true)), "", 0},
		{"other image", namespace("enforce", "baseline"), "", at.Update(admission.Pods, "", newPod("j", true), newPod("i", true)), "violates", 0},
		{"status", namespace("enforce", "baseline"), "", at.Update(admission.Pods, "status", newPod("j", true), newPod("i", true)), "", 0},
		{"exempt user", namespace("enforce", "baseline"), exempt, at.Create(admission.Pods, newPod("i", true)), "", 0},
		{"configured default", namespace(), strict, at.Create(admission.Pods, newPod("i", true)), "violates", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			warnings, err := run(t, at.NewObjects(c.ns), c.config, c.a)
			at.Check(t, err, c.want)
			if len(warnings) != c.warnings {
				t.Errorf("warned %q", warnings)
			}
		})
	}
}

// Workloads with a pod template cause warnings and are never refused.
func TestTemplates(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns"}}
	d.Spec.Template.Spec = newPod("i", true).Spec
	a := at.Create(schema.GroupResource{Group: "apps", Resource: "deployments"}, d)
	warnings, err := run(t, at.NewObjects(namespace("enforce", "baseline")), "", a)
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], `would violate PodSecurity "baseline:latest"`) {
		t.Errorf("got %q, %v", warnings, err)
	}
}

func TestNamespaces(t *testing.T) {
	objects := func() *at.Objects {
		var objs []admission.Object
		for _, name := range []string{"b", "a", "c"} {
			p := newPod("i", true)
			p.Name = name
			objs = append(objs, p)
		}
		return at.NewObjects(append(objs, newPod("i", false))...)
	}
	_, err := run(t, objects(), "", at.Create(admission.Namespaces, namespace("enforce", "x")))
	if !apierrors.IsInvalid(err) {
		t.Errorf("bad level: %v", err)
	}
	// An update that does not change invalid labels is accepted.
	if _, err = run(t, objects(), "", at.Update(admission.Namespaces, "", namespace("enforce", "x"), namespace("enforce", "x"))); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	got, err := run(t, objects(), "", at.Update(admission.Namespaces, "", namespace("enforce", "baseline"), namespace()))
	want := []string{
		`existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"`,
		"a (and 2 other pods): host namespaces",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, _ = run(t, objects(), "", at.Update(admission.Namespaces, "", namespace("enforce", "baseline"), namespace("enforce", "restricted"))); len(got) != 0 {
		t.Errorf("relaxed: %q", got)
	}
}

func TestConfig(t *testing.T) {
	const head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
	for _, bad := range []string{
		"kind: PodSecurityConfiguration", head + "defaults: {enforce: x}", head + "defaults: {warn-version: x}",
		head + "exemptions: {namespaces: [a, a]}", head + "exemptions: {usernames: ['']}", head + "unknown: 1",
	} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}
