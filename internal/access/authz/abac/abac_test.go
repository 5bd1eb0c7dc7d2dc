package abac

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

const file = `
# who may what
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"projects","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/version*","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"carol","group":"ops","namespace":"*","resource":"nodes"}}
{"user":"old","namespace":"ns"}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"namespace":"*","resource":"*"}}
`

func TestAuthorize(t *testing.T) {
	policies, err := Read(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	in := func(verb, namespace, group, resource string) *authz.Attributes {
		return &authz.Attributes{IsResource: true, Verb: verb, Namespace: namespace, Group: group, Resource: resource}
	}
	for _, c := range []struct {
		user string
		a    *authz.Attributes
		want authz.Decision
	}{
		{"alice", in("delete", "x", "apps", "deployments"), authz.Allow},
		{"alice", &authz.Attributes{Verb: "get", Path: "/x"}, authz.Allow},
		{"bob", in("list", "projects", "", "pods"), authz.Allow},
		{"bob", in("list", "projects", "apps", "pods"), authz.NoOpinion},
		{"bob", in("create", "projects", "", "pods"), authz.NoOpinion},
		{"bob", in("list", "other", "", "pods"), authz.NoOpinion},
		{"bob", &authz.Attributes{Verb: "get", Path: "/version/x"}, authz.Allow},
		{"bob", &authz.Attributes{Verb: "post", Path: "/version"}, authz.NoOpinion},
		{"carol", in("get", "", "", "nodes"), authz.NoOpinion},
		{"carol ops", in("get", "", "", "nodes"), authz.Allow},
		{"dave ops", in("get", "", "", "nodes"), authz.NoOpinion},
		{"old", in("delete", "ns", "apps", "x"), authz.Allow},
		{"old", &authz.Attributes{Verb: "get", Path: "/x"}, authz.NoOpinion},
		{"anyone", in("get", "", "", "x"), authz.NoOpinion},
	} {
		who := strings.Fields(c.user)
		c.a.User = &user.DefaultInfo{Name: who[0], Groups: append(who[1:], "system:authenticated")}
		if got, _, _ := policies.Authorize(t.Context(), c.a); got != c.want {
			t.Errorf("%s %+v: %v, want %v", c.user, c.a, got, c.want)
		}
	}
	rules, err := policies.RulesFor(&user.DefaultInfo{Name: "bob", Groups: []string{"system:authenticated"}}, "projects")
	if err != nil || len(rules) != 1 || rules[0].Resources[0] != "pods" || len(rules[0].Verbs) != 3 {
		t.Errorf("rules %v, %v", rules, err)
	}
}

func TestBadFiles(t *testing.T) {
	for _, bad := range []string{`x`, `{"apiVersion":"v1","kind":"Pod"}`, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Pod"}`} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
