package policy

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/admission/expr"
	"github.com/kanzen-io/kanzen/internal/admission/match"
	"github.com/kanzen-io/kanzen/internal/cel"
	"github.com/kanzen-io/kanzen/internal/live"
)

// policy is one policy of either kind, compiled.
type policy struct {
	name       string
	ignore     bool // errors
	shadow     bool // what it decides does not count
	paramKind  *schema.GroupVersionKind
	rules      match.Rules
	selectors  match.Selectors
	conditions *expr.Conditions
	variables  []cel.Variable

	// Of a ValidatingAdmissionPolicy.
	validations []validation
	annotations []annotation
	// Of a MutatingAdmissionPolicy.
	mutations []mutation
	reinvoke  bool
}

// binding puts a policy in force.
type binding struct {
	name, policy string
	shadow       bool // what the policy decides by it does not count
	// everywhere says that it matches every write that the policy matches.
	everywhere bool
	rules      match.Rules
	selectors  match.Selectors
	paramRef   *admissionv1.ParamRef
	actions    []admissionv1.ValidationAction
}

// bound is a policy with its bindings.
type bound struct {
	*policy
	bindings []*binding
}

// set is the policies in force at one revision of the stored policies and
// bindings.
type set struct {
	bound []bound
	table *match.Table
	// Compiled policies and bindings, by name and resourceVersion.
	policies map[string]*policy
	bindings map[string]*binding
}

// policies derives the set from two views when one of them changes.
type policies struct {
	*live.Derived[[2]int64, *set] // by the revisions of policies and bindings

	policies, bindings admission.View
	compile            func(obj admission.Object) *policy
	bind               func(obj admission.Object) *binding
}

func newPolicies(of, bindings admission.View, compile func(obj admission.Object) *policy, bind func(obj admission.Object) *binding) *policies {
	p := &policies{policies: of, bindings: bindings, compile: compile, bind: bind}
	p.Derived = &live.Derived[[2]int64, *set]{Revision: p.revision, Make: p.make}
	return p
}

func (p *policies) revision(ctx context.Context) (at [2]int64, err error) {
	if at[0], err = p.policies.Changed(ctx); err == nil {
		at[1], err = p.bindings.Changed(ctx)
	}
	return at, err
}

// make combines policies with their bindings. A policy without bindings is not
// in force, and is not compiled.
func (p *policies) make(ctx context.Context, was *set) (*set, error) {
	objs, err := p.policies.Objects(ctx)
	if err != nil {
		return nil, err
	}
	bindings, err := p.bindings.Objects(ctx)
	if err != nil {
		return nil, err
	}
	if was == nil {
		was = &set{}
	}
	s := &set{policies: map[string]*policy{}, bindings: map[string]*binding{}}
	of := map[string][]*binding{}
	for _, obj := range bindings {
		v := version(obj)
		b := was.bindings[v]
		if b == nil {
			if b = p.bind(obj); b != nil {
				b.shadow = shadowed(obj)
			}
		}
		if b != nil {
			s.bindings[v] = b
			of[b.policy] = append(of[b.policy], b)
		}
	}
	var rules []*match.Rules
	for _, obj := range objs {
		if len(of[obj.GetName()]) == 0 {
			continue
		}
		v := version(obj)
		c := was.policies[v]
		if c == nil {
			c = p.compile(obj)
		}
		if c != nil {
			s.policies[v] = c
			s.bound = append(s.bound, bound{c, of[c.name]})
			rules = append(rules, &c.rules)
		}
	}
	s.table = match.NewTable(rules)
	return s, nil
}

func version(obj admission.Object) string { return obj.GetName() + "/" + obj.GetResourceVersion() }

// matchResources returns the rules and selectors of a policy or binding.
// Without rules it matches everything that its selectors select.
func matchResources(m *admissionv1.MatchResources) (match.Rules, match.Selectors) {
	return match.Rules{
		Include: m.ResourceRules, All: true, Exclude: m.ExcludeResourceRules,
		Equivalent: m.MatchPolicy != nil && *m.MatchPolicy != admissionv1.Exact,
	}, match.NewSelectors(m.NamespaceSelector, m.ObjectSelector)
}

func paramKind(k *admissionv1.ParamKind) *schema.GroupVersionKind {
	if k == nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
	return &gvk
}

func newBinding(name, policy string, m *admissionv1.MatchResources, ref *admissionv1.ParamRef) *binding {
	b := &binding{name: name, policy: policy, paramRef: ref, everywhere: m == nil}
	if m != nil {
		b.rules, b.selectors = matchResources(m)
	}
	return b
}

// matches says whether a binding matches a write that its policy matches.
func (b *binding) matches(ctx context.Context, a *admission.Attributes, n match.Namespaces) (bool, error) {
	if b.everywhere {
		return true, nil
	}
	if _, ok := b.rules.Match(a); !ok {
		return false, nil
	}
	return b.selectors.Match(ctx, a, n)
}

func (d *Deps) variables(vars []admissionv1.Variable, s cel.Scope) []cel.Variable {
	var out []cel.Variable
	for _, v := range vars {
		out = append(out, cel.Variable{Name: v.Name, Program: d.Compiler.Compile(v.Expression, s, cel.Anything)})
	}
	return out
}
