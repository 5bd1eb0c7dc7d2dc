package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// mutatingPolicy compiles a MutatingAdmissionPolicy.
func (d *Deps) mutatingPolicy(obj admission.Object) *policy {
	in, ok := obj.(*admissionv1.MutatingAdmissionPolicy)
	if !ok || in.Spec.MatchConstraints == nil {
		return nil
	}
	s := cel.Scope{Params: in.Spec.ParamKind != nil, Authorizer: true, Variables: len(in.Spec.Variables) > 0}
	p := &policy{
		name: in.Name, ignore: in.Spec.FailurePolicy != nil && *in.Spec.FailurePolicy == admissionv1.Ignore,
		paramKind: paramKind(in.Spec.ParamKind), variables: d.variables(in.Spec.Variables, s),
		conditions: expr.NewConditions(d.Compiler, in.Spec.MatchConditions, s, in.Spec.FailurePolicy,
			d.Metrics.ConditionsOf(in.Name, "policy", measure.Validate)),
		shadow: shadowed(in), reinvoke: in.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy,
	}
	p.rules, p.selectors = matchResources(in.Spec.MatchConstraints)
	s.Patch = true
	for _, m := range in.Spec.Mutations {
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			p.mutations = append(p.mutations, mutation{d.Compiler.Compile(m.JSONPatch.Expression, s, cel.Patch), jsonPatched})
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			p.mutations = append(p.mutations, mutation{d.Compiler.Compile(m.ApplyConfiguration.Expression, s, cel.Object), applied})
		}
	}
	return p
}

func mutatingBinding(obj admission.Object) *binding {
	in, ok := obj.(*admissionv1.MutatingAdmissionPolicyBinding)
	if !ok {
		return nil
	}
	return newBinding(in.Name, in.Spec.PolicyName, in.Spec.MatchResources, in.Spec.ParamRef)
}

// mutating is the plugin that lets MutatingAdmissionPolicies change writes.
type mutating struct {
	Deps
	policies applying
}

// invocation is the evaluation of a policy for a binding and one parameter.
type invocation struct {
	policy         *bound
	binding        *binding
	with           param
	conditionsView admission.Version
	version        admission.Version
}

// id identifies an invocation in both rounds.
func (i *invocation) id() string {
	return i.policy.name + "/" + i.binding.name + "/" + i.with.namespace + "/" + i.with.name
}

// problem is an error of evaluating a policy or of changing the write.
type problem struct {
	policy, binding string
	ignore          bool
	err             error
	reason          metav1.StatusReason
}

func (p *problem) Error() string {
	if p.binding == "" {
		return fmt.Sprintf("policy %q denied request: %s", p.policy, p.err)
	}
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", p.policy, p.binding, p.err)
}

func (m *mutating) admit(ctx context.Context, a *admission.Attributes) error {
	if a.Operation == admission.Delete {
		return nil // there is nothing to change, also for a policy that matches all operations
	}
	set, err := m.policies.to(ctx, a)
	if err != nil {
		return notReady(a, err)
	}
	if set == nil {
		return nil
	}
	hits := set.table.Find(a)
	if len(hits) == 0 {
		return nil
	}
	invocations, problems := m.invocations(ctx, a, set, hits)
	if len(invocations) > 0 {
		more, err := m.invoke(ctx, a, invocations)
		if err != nil {
			return err
		}
		problems = append(problems, more...)
	}
	return refusal(a, problems)
}

// invocations finds the policies, bindings and parameters to evaluate.
func (m *mutating) invocations(ctx context.Context, a *admission.Attributes, set *set, hits []match.Hit) (out []invocation, problems []problem) {
	for _, hit := range hits {
		p := &set.bound[hit.Index]
		version, ok := set.table.Confirm(hit, a)
		if !ok {
			continue
		}
		ok, err := p.selectors.Match(ctx, a, m.Namespaces)
		if err == nil && ok {
			err = m.known(p.policy)
		}
		if err != nil {
			problems = append(problems, problem{policy: p.name, ignore: p.ignore, err: fmt.Errorf("failed to configure policy: %w", err)})
			continue
		}
		if !ok {
			continue
		}
		for _, b := range p.bindings {
			var params []param
			ok, err := b.matches(ctx, a, m.Namespaces)
			if err == nil && ok {
				params, err = m.params(ctx, p.policy, b, a.Namespace)
			}
			if err != nil {
				problems = append(problems, problem{p.name, b.name, p.ignore, fmt.Errorf("failed to configure binding: %w", err), ""})
				continue
			}
			for _, with := range params {
				out = append(out, invocation{policy: p, binding: b, with: with, version: version,
					conditionsView: admission.Version{Resource: a.Resource, Kind: version.Kind}})
			}
		}
	}
	return out, problems
}

// invoke evaluates policies one after the other. Each sees the changes of those
// before.
func (m *mutating) invoke(ctx context.Context, a *admission.Attributes, invocations []invocation) ([]problem, error) {
	again := admission.BeginRound(a, MutatingName)
	if a.Namespace != "" && a.Kind != corev1.SchemeGroupVersion.WithKind("Namespace") {
		if _, err := m.Namespaces.NamespaceLabels(ctx, a.Namespace); err != nil {
			return nil, err
		}
	}
	write := expr.NewWrite(a, m.Namespaces, m.Authorizer)
	var problems []problem
	for i := range invocations {
		more, err := m.invokeOne(ctx, a, write, &invocations[i], again)
		if err != nil {
			return nil, err
		}
		problems = append(problems, more...)
	}
	again.End(a)
	return problems, nil
}

func (m *mutating) invokeOne(ctx context.Context, a *admission.Attributes, write *expr.Write, in *invocation, again *admission.Reinvocation) ([]problem, error) {
	p := in.policy
	wrong := func(err error) problem {
		return problem{p.name, in.binding.name, p.ignore, err, metav1.StatusReasonInvalid}
	}
	view, err := write.In(ctx, in.conditionsView)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	met, err := p.conditions.Match(ctx, view, in.with.value, p.variables)
	if err != nil {
		return []problem{wrong(err)}, nil
	}
	if !met || !again.Calls(a, in.id()) {
		return nil, nil
	}
	var problems []problem
	before, started, wouldChange := a.Object, time.Now(), false
	defer func() { noteMutation(ctx, in, started, wouldChange || before != a.Object, len(problems) > 0) }()
	for i := range p.mutations {
		if a.Object == nil {
			break
		}
		began := time.Now()
		err := p.mutations[i].mutate(ctx, a, write, in)
		m.Metrics.Mutation(p.name, in.binding.name, errorType(err), time.Since(began))
		var st *apierrors.StatusError
		if errors.As(err, &st) && !in.shadowed() {
			return nil, st
		}
		if err != nil {
			problems = append(problems, wrong(err))
		}
	}
	if in.shadowed() {
		wouldChange = before != a.Object
		a.Object = before
		write.Changed()
		return nil, nil
	}
	if before != a.Object && !apiequality.Semantic.DeepEqual(before, a.Object) {
		again.Changed()
		a.RunAgain()
	}
	if p.reinvoke {
		again.Called(in.id())
	}
	return problems, nil
}

// refusal returns the answer to the client: nil if no problem refuses the
// write.
func refusal(a *admission.Attributes, problems []problem) error {
	problems = slices.DeleteFunc(problems, func(p problem) bool { return p.ignore })
	if len(problems) == 0 {
		return nil
	}
	err := admission.Forbidden(a, errors.New("admission request denied by policy"))
	var st *apierrors.StatusError
	if !errors.As(err, &st) {
		return err
	}
	st.ErrStatus.Message = problems[0].Error()
	if r := problems[0].reason; r != "" {
		st.ErrStatus.Reason = r
	}
	for i := range problems {
		st.ErrStatus.Details.Causes = append(st.ErrStatus.Details.Causes, metav1.StatusCause{Message: problems[i].Error()})
	}
	return st
}
