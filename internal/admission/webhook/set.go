package webhook

import (
	"context"
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/admission/expr"
	"github.com/kanzen-io/kanzen/internal/admission/match"
	"github.com/kanzen-io/kanzen/internal/admission/measure"
	"github.com/kanzen-io/kanzen/internal/cel"
	"github.com/kanzen-io/kanzen/internal/live"
)

// hook is one webhook, compiled.
type hook struct {
	// id identifies the webhook: names need not be unique.
	id, configuration string
	name              string
	client            admissionv1.WebhookClientConfig
	rules             match.Rules
	selectors         match.Selectors
	conditions        *expr.Conditions
	ignore            bool // failed calls
	shadow            bool // what it answers does not count
	sideEffects       *admissionv1.SideEffectClass
	timeoutSeconds    *int32
	reviewVersions    []string
	reinvoke          bool // mutating ones only
}

// set is all webhooks of a kind at one revision of their configurations.
type set struct {
	hooks []*hook
	table *match.Table
	// byVersion has the hooks of each configuration, so that the next set
	// compiles only new configurations.
	byVersion map[string][]*hook
}

// hooks derives the set from a view of configurations when they change.
type hooks = live.Derived[int64, *set]

func newHooks(d *Deps, view admission.View, compile func(d *Deps, obj admission.Object) []*hook) *hooks {
	return &hooks{Revision: view.Changed, Make: func(ctx context.Context, was *set) (*set, error) {
		objs, err := view.Objects(ctx)
		if err != nil {
			return nil, err
		}
		s := &set{byVersion: map[string][]*hook{}}
		for _, obj := range objs {
			version := obj.GetName() + "/" + obj.GetResourceVersion()
			var made []*hook
			if was != nil {
				made = was.byVersion[version]
			}
			if made == nil {
				made = compile(d, obj)
				for _, h := range made {
					h.shadow = obj.GetAnnotations()[ModeAnnotation] == Shadow
				}
			}
			s.byVersion[version] = made
			s.hooks = append(s.hooks, made...)
		}
		rules := make([]*match.Rules, len(s.hooks))
		for i, hook := range s.hooks {
			rules[i] = &hook.rules
		}
		s.table = match.NewTable(rules)
		return s, nil
	}}
}

func mutatingHooks(d *Deps, obj admission.Object) []*hook {
	c, ok := obj.(*admissionv1.MutatingWebhookConfiguration)
	if !ok {
		return nil
	}
	ids := identifier{configuration: c.Name}
	out := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		out[i] = d.compile(measure.Admit, &ids, &admissionv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
		out[i].reinvoke = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy
	}
	return out
}

func validatingHooks(d *Deps, obj admission.Object) []*hook {
	c, ok := obj.(*admissionv1.ValidatingWebhookConfiguration)
	if !ok {
		return nil
	}
	ids := identifier{configuration: c.Name}
	out := make([]*hook, len(c.Webhooks))
	for i := range c.Webhooks {
		out[i] = d.compile(measure.Validate, &ids, &c.Webhooks[i])
	}
	return out
}

// compile makes a hook of the fields that both kinds of webhooks have: those of
// a validating one.
func (d *Deps) compile(phase measure.Phase, ids *identifier, w *admissionv1.ValidatingWebhook) *hook {
	h := &hook{
		id: ids.next(w.Name), configuration: ids.configuration, name: w.Name, client: w.ClientConfig,
		selectors: match.NewSelectors(w.NamespaceSelector, w.ObjectSelector),
		ignore:    w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore,
		conditions: expr.NewConditions(d.Compiler, w.MatchConditions, cel.Scope{Authorizer: true}, w.FailurePolicy,
			d.Metrics.ConditionsOf(w.Name, "webhook", phase)),
		sideEffects: w.SideEffects, timeoutSeconds: w.TimeoutSeconds, reviewVersions: w.AdmissionReviewVersions,
	}
	h.rules.Equivalent = w.MatchPolicy != nil && *w.MatchPolicy == admissionv1.Equivalent
	for _, r := range w.Rules {
		h.rules.Include = append(h.rules.Include, admissionv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	return h
}

// identifier names the webhooks of a configuration by their own names and, for
// those of the same name, their number.
type identifier struct {
	configuration string
	seen          map[string]int
}

func (i *identifier) next(name string) string {
	if i.seen == nil {
		i.seen = map[string]int{}
	}
	n := i.seen[name]
	i.seen[name]++
	return fmt.Sprintf("%s/%s/%s", i.configuration, name, strconv.Itoa(n))
}
