package policy

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/live"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/object/cel"
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

// set is the policies in force at one revision of policies and bindings.
type set struct {
	bound []bound
	table *match.Table
	// Compiled policies and bindings, by name and resourceVersion.
	policies map[string]*policy
	bindings map[string]*binding
}

// Source is where policies and their bindings come from. A binding is for a policy of its own source.
type Source struct{ Policies, Bindings admission.View }

// policies derives a set from sources when one of their views changes.
type policies struct {
	*live.Derived[[2]int64, *set] // by the revisions of policies and bindings

	from    []Source
	compile func(obj admission.Object) *policy
	bind    func(obj admission.Object) *binding
}

// applying are the policies of a kind: which apply to a write depends on what it is to.
type applying struct {
	all *policies // those of manifests, and then those that are stored
	// manifests has only those of manifests. Nil if there are none.
	manifests *policies
}

// newApplying makes the policies of two sources. There need be no manifests.
func newApplying(manifests *Source, stored Source, compile func(obj admission.Object) *policy, bind func(obj admission.Object) *binding) applying {
	if manifests == nil {
		return applying{all: newPolicies([]Source{stored}, compile, bind)}
	}
	return applying{newPolicies([]Source{*manifests, stored}, compile, bind), newPolicies([]Source{*manifests}, compile, bind)}
}

// to returns the policies that apply to a write; nil: none.
func (a *applying) to(ctx context.Context, write *admission.Attributes) (*set, error) {
	if match.IsReview(write) {
		return nil, nil
	}
	if !match.IsPolicy(write) {
		return a.all.Get(ctx)
	}
	if a.manifests == nil {
		return nil, nil
	}
	return a.manifests.Get(ctx)
}

func newPolicies(from []Source, compile func(obj admission.Object) *policy, bind func(obj admission.Object) *binding) *policies {
	p := &policies{from: from, compile: compile, bind: bind}
	p.Derived = &live.Derived[[2]int64, *set]{Revision: p.revision, Make: p.make}
	return p
}

// revision sums up what each source has: it only rises.
func (p *policies) revision(ctx context.Context) (at [2]int64, err error) {
	for _, s := range p.from {
		for i, view := range [...]admission.View{s.Policies, s.Bindings} {
			n, err := view.Changed(ctx)
			if err != nil {
				return at, err
			}
			at[i] += n
		}
	}
	return at, nil
}

func (p *policies) make(ctx context.Context, was *set) (*set, error) {
	if was == nil {
		was = &set{}
	}
	s := &set{policies: map[string]*policy{}, bindings: map[string]*binding{}}
	for _, from := range p.from {
		if err := p.add(ctx, s, from, was); err != nil {
			return nil, err
		}
	}
	rules := make([]*match.Rules, len(s.bound))
	for i, b := range s.bound {
		rules[i] = &b.rules
	}
	s.table = match.NewTable(rules)
	return s, nil
}

// add combines a source's policies with their bindings. A policy without bindings is not in force, and is not compiled.
func (p *policies) add(ctx context.Context, s *set, from Source, was *set) error {
	objs, err := from.Policies.Objects(ctx)
	if err != nil {
		return err
	}
	bindings, err := from.Bindings.Objects(ctx)
	if err != nil {
		return err
	}
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
		}
	}
	return nil
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
