package garbagecollector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// cluster is a server with short helpers for its API.
type cluster struct {
	t *testing.T
	k *kubernetes.Clientset
	d dynamic.Interface
}

func start(t *testing.T, options ...kanzentest.Option) *cluster {
	t.Helper()
	c := kanzentest.Start(t, options...).Config()
	c.QPS = -1
	return &cluster{t, kubernetes.NewForConfigOrDie(c), dynamic.NewForConfigOrDie(c)}
}

// await polls until f returns "".
func (c *cluster) await(f func(ctx context.Context) string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	for {
		missing := f(ctx)
		if missing == "" {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatal(missing)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ref is a reference to a ConfigMap.
func ref(name string, uid types.UID, blocks bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid, BlockOwnerDeletion: &blocks}
}

// create makes a ConfigMap with owners.
func (c *cluster) create(name string, refs ...metav1.OwnerReference) types.UID {
	c.t.Helper()
	m, err := c.k.CoreV1().ConfigMaps("default").Create(c.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: refs, Labels: map[string]string{"test": "yes"}}}, metav1.CreateOptions{})
	c.must(err)
	return m.UID
}

func (c *cluster) delete(name string, policy metav1.DeletionPropagation) {
	c.t.Helper()
	c.must(c.k.CoreV1().ConfigMaps("default").Delete(c.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// there returns the remaining objects, each with its owners: "b(a)".
func (c *cluster) there(ctx context.Context) string {
	list, err := c.k.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: "test"})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, m := range list.Items {
		text := m.Name
		if m.DeletionTimestamp != nil {
			text += "!"
		}
		var owners []string
		for _, r := range m.OwnerReferences {
			owners = append(owners, r.Name)
		}
		slices.Sort(owners)
		out = append(out, fmt.Sprintf("%s(%s)", text, strings.Join(owners, ",")))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// becomes waits until there returns want.
func (c *cluster) becomes(want string) {
	c.t.Helper()
	c.await(func(ctx context.Context) string {
		if got := c.there(ctx); got != want {
			return fmt.Sprintf("there is %q, want %q", got, want)
		}
		return ""
	})
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy metav1.DeletionPropagation
		want   string
	}{
		{metav1.DeletePropagationBackground, "other() shared(other)"},
		{metav1.DeletePropagationForeground, "other() shared(other)"},
		{metav1.DeletePropagationOrphan, "child() grandchild(child) other() shared(other)"},
	} {
		t.Run(string(tt.policy), func(t *testing.T) {
			t.Parallel()
			c := start(t)
			owner, other := c.create("owner"), c.create("other")
			child := c.create("child", ref("owner", owner, true))
			c.create("grandchild", ref("child", child, true))
			c.create("shared", ref("owner", owner, true), ref("other", other, false))
			c.delete("owner", tt.policy)
			c.becomes(tt.want)
		})
	}
}

// An object that is deleted in the foreground stays while a dependent blocks it,
// and only for that.
func TestForegroundWaits(t *testing.T) {
	t.Parallel()
	c := start(t)
	owner := c.create("owner")
	c.create("blocks", ref("owner", owner, true))
	c.create("lasts", ref("owner", owner, false))
	hold := func(name, finalizers string) {
		_, err := c.k.CoreV1().ConfigMaps("default").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		c.must(err)
	}
	hold("blocks", `["example.com/hold"]`)
	hold("lasts", `["example.com/hold"]`)
	c.delete("owner", metav1.DeletePropagationForeground)
	c.becomes("blocks!(owner) lasts!(owner) owner!()")
	hold("blocks", "null")
	c.becomes("lasts!(owner)")
	hold("lasts", "null")
	c.becomes("")
	// One without dependents is removed at once, as is a cycle.
	c.create("alone")
	c.delete("alone", metav1.DeletePropagationForeground)
	c.becomes("")
	a := c.create("a")
	b := c.create("b", ref("a", a, true))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{ref("b", b, true)}}})
	c.must(err)
	_, err = c.k.CoreV1().ConfigMaps("default").Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
	c.must(err)
	c.delete("a", metav1.DeletePropagationForeground)
	c.becomes("")
}

// Owners that never existed, or whose name belongs to another object by now,
// count as deleted.
func TestAbsentOwners(t *testing.T) {
	t.Parallel()
	c := start(t)
	owner := c.create("owner")
	c.create("of-nobody", ref("nobody", "no-such-uid", false))
	c.create("of-another", ref("owner", "another-uid", false))
	c.create("of-both", ref("owner", owner, false), ref("owner", "another-uid", false))
	c.becomes("of-both(owner) owner()")
	// An unknown kind may be served later, so nothing is deleted because of it.
	c.create("of-unknown", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "x", UID: "x"})
	c.delete("owner", metav1.DeletePropagationBackground)
	c.becomes("of-unknown(x)")
}

// An owner must be in the namespace of its dependents, or cluster-scoped. An
// event reports an owner in another namespace.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel()
	c := start(t)
	m, err := c.k.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "far"}}, metav1.CreateOptions{})
	c.must(err)
	c.create("of-far", ref("far", m.UID, false))
	_, err = c.k.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-far", OwnerReferences: []metav1.OwnerReference{ref("far", m.UID, false)}}}, metav1.CreateOptions{})
	c.must(err)
	c.becomes("")
	c.await(func(ctx context.Context) string {
		events, err := c.k.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=OwnerRefInvalidNamespace"})
		if err != nil {
			return err.Error()
		}
		var kinds []string
		for _, e := range events.Items {
			kinds = append(kinds, e.InvolvedObject.Kind)
			if ns := e.InvolvedObject.Namespace; e.Message != fmt.Sprintf("ownerRef [v1/ConfigMap, namespace: %s, name: far, uid: %s] does not exist in namespace %q", ns, m.UID, ns) {
				t.Errorf("message %q", e.Message)
			}
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, []string{"ClusterRole", "ConfigMap"}) {
			return fmt.Sprintf("events about %v", kinds)
		}
		return ""
	})
	if _, err := c.k.RbacV1().ClusterRoles().Get(t.Context(), "of-far", metav1.GetOptions{}); err != nil {
		t.Errorf("an object without namespace: %v", err)
	}
	// Cluster-scoped owners can own objects in every namespace.
	role, err := c.k.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	c.must(err)
	c.create("of-role", metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "owner", UID: role.UID})
	c.must(c.k.RbacV1().ClusterRoles().Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	c.becomes("")
}

// Custom resources own and are owned, also by kinds that are served later.
func TestCustomResources(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.define()
	things, thing := c.things(), c.thing
	owner := thing("owner")
	c.create("of-thing", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "owner", UID: owner})
	thing("of-map", ref("none", "none", false))
	c.await(func(ctx context.Context) string {
		if _, err := things.Get(ctx, "of-map", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("a thing of nobody stays: %v", err)
		}
		return ""
	})
	foreground := metav1.DeletePropagationForeground
	c.must(things.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	c.becomes("")
	c.await(func(ctx context.Context) string {
		if _, err := things.Get(ctx, "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the owner stays: %v", err)
		}
		return ""
	})
}

// define creates a kind Thing.
func (c *cluster) define() {
	c.t.Helper()
	yes := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}}}},
		},
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	c.must(err)
	_, err = c.d.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		Create(c.t.Context(), &unstructured.Unstructured{Object: u}, metav1.CreateOptions{})
	c.must(err)
}

func (c *cluster) things() dynamic.ResourceInterface {
	return c.d.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}).Namespace("default")
}

// thing makes a Thing with owners, once its kind is served.
func (c *cluster) thing(name string, refs ...metav1.OwnerReference) types.UID {
	c.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
	o.SetName(name)
	o.SetOwnerReferences(refs)
	var made *unstructured.Unstructured
	c.await(func(ctx context.Context) (missing string) {
		var err error
		if made, err = c.things().Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return made.GetUID()
}

func customRef(name string, uid types.UID) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: name, UID: uid, BlockOwnerDeletion: &yes}
}

// A server that starts again knows the owners that are custom resources: their dependents stay, and what was under way for
// them goes on.
func TestRestartWithCustomResources(t *testing.T) {
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		c := start(t, kanzentest.DataDir(dir), kanzentest.Controllers("-garbage-collector-controller"))
		c.define()
		stays, goes, waits, released := c.thing("stays"), c.thing("goes"), c.thing("waits"), c.thing("released")
		c.create("of-stays", customRef("stays", stays))
		c.thing("thing-of-stays", customRef("stays", stays))
		c.create("of-goes", customRef("goes", goes))
		c.thing("thing-of-goes", customRef("goes", goes))
		c.create("of-waits", customRef("waits", waits))
		c.create("of-released", customRef("released", released))
		for name, policy := range map[string]metav1.DeletionPropagation{"goes": metav1.DeletePropagationBackground,
			"waits": metav1.DeletePropagationForeground, "released": metav1.DeletePropagationOrphan} {
			c.must(c.things().Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
		}
	})
	t.Run("after", func(t *testing.T) {
		c := start(t, kanzentest.DataDir(dir))
		c.becomes("of-released() of-stays(stays)")
		c.await(func(ctx context.Context) string {
			list, err := c.things().List(ctx, metav1.ListOptions{})
			c.must(err)
			var names []string
			for _, o := range list.Items {
				names = append(names, o.GetName())
			}
			if got := strings.Join(names, " "); got != "stays thing-of-stays" {
				return "there are the things " + got
			}
			return ""
		})
	})
}

// Objects that were to be collected when the server stopped are collected after
// it starts again.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) {
		c := start(t, kanzentest.DataDir(dir), kanzentest.Controllers("-garbage-collector-controller"))
		owner, stays := c.create("owner"), c.create("stays")
		c.create("child", ref("owner", owner, false))
		c.create("child-of-stays", ref("stays", stays, false))
		waits := c.create("waits")
		c.create("of-waits", ref("waits", waits, true))
		released := c.create("released")
		c.create("of-released", ref("released", released, true))
		c.delete("owner", metav1.DeletePropagationBackground)
		c.delete("waits", metav1.DeletePropagationForeground)
		c.delete("released", metav1.DeletePropagationOrphan)
	})
	t.Run("after", func(t *testing.T) {
		start(t, kanzentest.DataDir(dir)).becomes("child-of-stays(stays) of-released() stays()")
	})
}

// A random forest of owners, in which objects are deleted one after the other
// with random policies, ends in the same state as a simple model of garbage
// collection.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c, r := start(t), rand.New(rand.NewPCG(seed, 1))
			m, uids := model{}, map[string]types.UID{}
			for n := range 40 {
				name := fmt.Sprintf("o%02d", n)
				var refs []metav1.OwnerReference
				m[name] = map[string]bool{}
				for range r.IntN(4) {
					if n == 0 {
						break
					}
					owner := fmt.Sprintf("o%02d", r.IntN(n))
					if !m[name][owner] {
						m[name][owner] = true
						refs = append(refs, ref(owner, uids[owner], r.IntN(2) == 0))
					}
				}
				uids[name] = c.create(name, refs...)
			}
			c.becomes(m.String())
			for len(m) > 0 {
				names := slices.Sorted(maps.Keys(m))
				name := names[r.IntN(len(names))]
				policy := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[r.IntN(3)]
				c.delete(name, policy)
				m.delete(name, policy)
				c.becomes(m.String())
			}
		})
	}
}

// model has the existing objects, each with its owners.
type model map[string]map[string]bool

func (m model) delete(name string, policy metav1.DeletionPropagation) {
	if policy == metav1.DeletePropagationOrphan {
		for _, owners := range m {
			delete(owners, name)
		}
	}
	delete(m, name)
	for again := true; again; {
		again = false
		for object, owners := range m {
			solid := 0
			for owner := range owners {
				if m[owner] != nil {
					solid++
				}
			}
			if len(owners) > 0 && solid == 0 {
				delete(m, object)
				again = true
			}
		}
	}
	for _, owners := range m {
		maps.DeleteFunc(owners, func(owner string, _ bool) bool { return m[owner] == nil })
	}
}

func (m model) String() string {
	var out []string
	for name, owners := range m {
		out = append(out, fmt.Sprintf("%s(%s)", name, strings.Join(slices.Sorted(maps.Keys(owners)), ",")))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
