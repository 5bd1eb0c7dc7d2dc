package planes

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine"
)

const clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

// commonOf returns the objects that a plane has in common with others, by kind and name.
func (g *ground) commonOf(t *testing.T, name string) map[string]engine.Object {
	t.Helper()
	h := g.find(name)
	h.mu.Lock()
	id := h.under.base
	h.mu.Unlock()
	b, err := g.baseOf(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]engine.Object{}
	b.common().Each(func(o engine.Object) {
		all[fmt.Sprintf("%s %s/%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName())] = o
	})
	return all
}

// What planes begin with is decoded once for all of them, and nobody changes that, whatever becomes of the objects of one.
func TestCommon(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	for _, name := range []string{"one", "two"} {
		g.create(t, name, PlaneSpec{})
	}
	var list rbacv1.ClusterRoleList
	g.must(t, "one", "GET", clusterRoles, "", &list) // it has them without decoding them
	began, copies := g.commonOf(t, "one"), map[string]apiruntime.Object{}
	for key, o := range began {
		copies[key] = o.DeepCopyObject()
	}
	for n := range list.Items {
		r := &list.Items[n]
		have, ok := began["ClusterRole /"+r.Name].(*rbacv1.ClusterRole)
		if !ok {
			t.Errorf("the cluster role %s is not common to planes", r.Name)
			continue
		}
		if r.TypeMeta = have.TypeMeta; !apiequality.Semantic.DeepEqual(have, r) {
			t.Errorf("got  %v\nwant %v", have, r)
		}
	}
	if len(list.Items) < 60 || len(began) < 150 {
		t.Errorf("%d cluster roles, %d common objects", len(list.Items), len(began))
	}
	var both sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		both.Go(func() { g.useCommon(t, name) })
	}
	both.Wait()
	for key, o := range g.commonOf(t, "two") {
		if was, ok := copies[key]; ok && (o != began[key] || !apiequality.Semantic.DeepEqual(o, was)) {
			t.Errorf("%s was decoded anew, or changed:\n%v\n%v", key, o, was)
		}
	}
	for _, name := range []string{"one", "two"} { // what the other has written is not here
		var admin rbacv1.ClusterRole
		g.must(t, name, "GET", clusterRoles+"/admin", "", &admin)
		for _, rule := range admin.Rules {
			for _, group := range rule.APIGroups {
				if (group == "of.one" || group == "of.two") && group != "of."+name {
					t.Errorf("the role of %s has rules %v", name, rule)
				}
			}
		}
	}
}

// useCommon has a plane read, change and delete objects that it began with.
func (g *ground) useCommon(t *testing.T, name string) {
	g.must(t, name, "POST", clusterRoles, fmt.Sprintf(`{"metadata":{"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}},
		"rules":[{"apiGroups":["of.%s"],"resources":["x"],"verbs":["get"]}]}`, name), nil)
	g.must(t, name, "PATCH", clusterRoles+"/edit?fieldManager=test&force=true", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",
		"metadata":{"name":"edit","labels":{"of":%q}},"rules":[]}`, name), nil)
	g.must(t, name, "PATCH", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/global-default?fieldManager=test&force=true",
		`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"global-default","labels":{"a":"b"}},"spec":{"matchingPrecedence":9901}}`, nil)
	g.must(t, name, "DELETE", clusterRoles+"/system:node-problem-detector", "", nil)
	g.must(t, name, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`, nil)
	g.must(t, name, "GET", "/apis/apiregistration.k8s.io/v1/apiservices", "", nil)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var admin rbacv1.ClusterRole
		g.must(t, name, "GET", clusterRoles+"/admin", "", &admin)
		for _, rule := range admin.Rules {
			if rule.APIGroups[0] == "of."+name {
				return
			}
		}
		if time.Now().After(until) {
			t.Errorf("the rules of the new role are not in %v", admin.Rules)
			return
		}
	}
}

// Once no plane is awake that has them, common objects are free.
func TestCommonIsFreed(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.must(t, "one", "GET", "/api/v1/namespaces", "", nil)
	h := g.find("one")
	h.mu.Lock()
	id := h.under.base
	h.mu.Unlock()
	b, err := g.baseOf(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	held := func() bool {
		runtime.GC()
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.objects.Value() != nil
	}
	if !held() {
		t.Error("a plane that is awake holds none")
	}
	if err := h.sleep(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); held(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("something holds the common objects, though no plane is awake")
		}
	}
}
