// Package abac authorizes by a file of policies (--authorization-policy-file): one JSON object per line, read once. It
// predates RBAC and has no later features.
package abac

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request/scope"
)

// version is the version of policies that have one.
const version = "abac.authorization.kubernetes.io/v1beta1"

// Policies are the policies of a file. A request is allowed if any of them allows it.
type Policies []Policy

// Policy is one line.
type Policy struct {
	User            string `json:"user"`
	Group           string `json:"group"`
	Readonly        bool   `json:"readonly"`
	APIGroup        string `json:"apiGroup"`
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace"`
	NonResourcePath string `json:"nonResourcePath"`
}

// ReadFile reads a file of policies.
func ReadFile(path string) (Policies, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened read-only
	p, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("error reading policy file %s, %w", path, err)
	}
	return p, nil
}

// Read parses policies. It skips empty lines and those that begin with #.
func Read(r io.Reader) (Policies, error) {
	var out Policies
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		p, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, p)
	}
	return out, lines.Err()
}

func parse(line []byte) (Policy, error) {
	var v1 struct {
		metav1.TypeMeta
		Spec Policy `json:"spec"`
	}
	if err := json.Unmarshal(line, &v1); err != nil {
		return Policy{}, err
	}
	everyone := func(p Policy) Policy {
		if p.User == "*" || p.Group == "*" {
			p.User, p.Group = "", user.AllAuthenticated
		}
		return p
	}
	switch {
	case v1.APIVersion == version && v1.Kind == "Policy":
		return everyone(v1.Spec), nil
	case v1.APIVersion != "":
		return Policy{}, fmt.Errorf("%s %s is no Policy of %s", v1.APIVersion, v1.Kind, version)
	}
	return unversioned(line, everyone)
}

// unversioned parses a line of the first format, where omitted fields match everything.
func unversioned(line []byte, everyone func(Policy) Policy) (Policy, error) {
	var p Policy
	if err := json.Unmarshal(line, &p); err != nil {
		return p, err
	}
	p.APIGroup, p.NonResourcePath = "*", ""
	if p.User == "" && p.Group == "" {
		p.Group = user.AllAuthenticated
	}
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	return everyone(p), nil
}

// Authorize allows what a policy allows, and otherwise has no opinion.
func (ps Policies) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	for i := range ps {
		if ps[i].allows(a) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "No policy matched.", nil
}

func (p *Policy) allows(a *authz.Attributes) bool {
	if !p.isFor(a.User) || p.Readonly && !slices.Contains([]string{"get", "list", "watch"}, a.Verb) {
		return false
	}
	if a.IsResource {
		return oneOf(p.Namespace, a.Namespace) && oneOf(p.Resource, a.Resource) && oneOf(p.APIGroup, a.Group)
	}
	return oneOf(p.NonResourcePath, a.Path) ||
		strings.HasSuffix(p.NonResourcePath, "*") && strings.HasPrefix(a.Path, strings.TrimRight(p.NonResourcePath, "*"))
}

func oneOf(policy, asked string) bool { return policy == "*" || policy == asked }

// isFor reports whether a policy applies to the user. A policy that names a user and a group requires both.
func (p *Policy) isFor(u user.Info) bool {
	switch {
	case u == nil || p.User == "" && p.Group == "":
		return false
	case p.User != "" && !oneOf(p.User, u.GetName()):
		return false
	}
	return p.Group == "" || p.Group == "*" || slices.Contains(u.GetGroups(), p.Group)
}

// Scope is part of authz.Scoper: policies are about namespaces, and not about single objects.
func (ps Policies) Scope(a *authz.Attributes) scope.Set {
	all := scope.Names{All: true}
	var s scope.Set
	for i := range ps {
		in := *a
		if in.Namespace = ps[i].Namespace; in.Namespace == "*" {
			in.Namespace = a.Namespace
		}
		switch {
		case a.Namespace != "" && in.Namespace != a.Namespace || !ps[i].allows(&in):
		case ps[i].Namespace == "": // what is outside of namespaces, or all at once: that was asked before
		case ps[i].Namespace == "*":
			return scope.All()
		default:
			s = s.With(scope.Set{In: map[string]scope.Names{in.Namespace: all}})
		}
	}
	return s
}

// RulesFor returns what policies allow a user in a namespace.
func (ps Policies) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var out []rbacv1.PolicyRule
	for _, p := range ps {
		if !p.isFor(u) || !oneOf(p.Namespace, namespace) {
			continue
		}
		verbs := []string{"*"}
		if p.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" {
			out = append(out, rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			out = append(out, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: []string{p.NonResourcePath}})
		}
	}
	return out, nil
}
