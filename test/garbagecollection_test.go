package test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestGarbageCollectionAsUpstream tells the same stories of owners on kanzen with its own controllers, and on kube-apiserver with
// kube-controller-manager: they must end in the same objects and events.
func TestGarbageCollectionAsUpstream(t *testing.T) {
	if !*withMachines {
		t.Skip("run with -machines")
	}
	ours := ownership(t, serve(t, filepath.Join(t.TempDir(), "data")).client())
	c := peer.Start(t)
	m := &machines{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	m.writeKubeconfig(c)
	start(t, peerProgram(t, "kube-controller-manager"), "--kubeconfig="+m.kubeconfig, "--controllers=garbage-collector-controller", "--leader-elect=false", "--secure-port=0")
	theirs := ownership(t, kubernetes.NewForConfigOrDie(c))
	if ours != theirs {
		t.Errorf("kanzen ends with\n%s\nkube-controller-manager with\n%s", ours, theirs)
	}
	t.Log(ours)
}

// ownership makes owners and dependents, deletes owners, and returns what is left in the end.
func ownership(t *testing.T, k *kubernetes.Clientset) string {
	t.Helper()
	ctx := t.Context()
	_, err := k.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	must(t, err)
	create := func(namespace, name string, refs ...metav1.OwnerReference) types.UID {
		t.Helper()
		m, err := k.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: refs, Labels: map[string]string{"gc": "yes"}}}, metav1.CreateOptions{})
		must(t, err)
		return m.UID
	}
	blocks := true
	ref := func(name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid, BlockOwnerDeletion: &blocks}
	}
	keeper := create("default", "keeper")
	policies := map[string]metav1.DeletionPropagation{"bg": metav1.DeletePropagationBackground, "fg": metav1.DeletePropagationForeground, "or": metav1.DeletePropagationOrphan}
	for p := range policies {
		owner := create("default", p+"-owner")
		child := create("default", p+"-child", ref(p+"-owner", owner))
		create("default", p+"-grandchild", ref(p+"-child", child))
		create("default", p+"-shared", ref(p+"-owner", owner), ref("keeper", keeper))
	}
	const nobody = "00000000-0000-0000-0000-000000000000"
	create("default", "of-absent", ref("absent", nobody))
	create("default", "of-another-uid", ref("keeper", nobody))
	create("default", "of-absent-and-keeper", ref("absent", nobody), ref("keeper", keeper))
	create("other", "of-another-namespace", ref("keeper", keeper))
	unknown := ref("x", nobody)
	unknown.APIVersion, unknown.Kind = "no.example.com/v1", "Thing"
	create("default", "of-unknown-kind", unknown)
	_, err = k.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-a-namespaced-owner", Labels: map[string]string{"gc": "yes"},
		OwnerReferences: []metav1.OwnerReference{ref("keeper", keeper)}}}, metav1.CreateOptions{})
	must(t, err)
	// A cycle of two, of which one is deleted in the foreground.
	one := create("default", "cycle-1")
	two := create("default", "cycle-2", ref("cycle-1", one))
	_, err = k.CoreV1().ConfigMaps("default").Patch(ctx, "cycle-1", types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"cycle-2","uid":%q,"blockOwnerDeletion":true}]}}`, two), metav1.PatchOptions{})
	must(t, err)
	policies["cycle"] = metav1.DeletePropagationForeground
	for p, policy := range policies {
		name := p + "-owner"
		if p == "cycle" {
			name = "cycle-1"
		}
		must(t, k.CoreV1().ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy}))
	}
	const want = "default/bg-shared(keeper) default/fg-shared(keeper) default/keeper() default/of-absent-and-keeper(keeper) default/of-unknown-kind(x) " +
		"default/or-child() default/or-grandchild(or-child) default/or-shared(keeper) of-a-namespaced-owner(keeper)"
	var got string
	within(t, 2*time.Minute, "want "+want, func(ctx context.Context) bool {
		got = owned(ctx, t, k)
		return got == want
	})
	events := ""
	within(t, time.Minute, "two events", func(ctx context.Context) bool {
		events = invalidOwners(ctx, t, k)
		return strings.Count(events, "\n") >= 2
	})
	return got + "\n" + events
}

// owned returns the objects with their owners.
func owned(ctx context.Context, t *testing.T, k *kubernetes.Clientset) string {
	maps, err := k.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "gc"})
	must(t, err)
	roles, err := k.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: "gc"})
	must(t, err)
	var out []string
	add := func(name string, refs []metav1.OwnerReference) {
		var owners []string
		for _, r := range refs {
			owners = append(owners, r.Name)
		}
		out = append(out, name+"("+strings.Join(owners, ",")+")")
	}
	for _, m := range maps.Items {
		add(m.Namespace+"/"+m.Name, m.OwnerReferences)
	}
	for _, r := range roles.Items {
		add(r.Name, r.OwnerReferences)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

var anyUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// invalidOwners returns the events of the garbage collector, each once.
func invalidOwners(ctx context.Context, t *testing.T, k *kubernetes.Clientset) string {
	list, err := k.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
	must(t, err)
	var out []string
	for _, e := range list.Items {
		o := e.InvolvedObject
		out = append(out, anyUID.ReplaceAllString(fmt.Sprintf("%s %s: %s %s %s/%s by %s: %s\n", e.Namespace, e.Type, o.APIVersion, o.Kind, o.Namespace, o.Name, e.Source.Component, e.Message), "UID"))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "")
}
