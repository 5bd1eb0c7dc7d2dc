package webhook

import (
	"context"
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/base/live"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// hook is one webhook, compiled.
type hook struct {
	// id identifies the webhook: names need not be unique.
	id, configuration string
	name              string
	target            *target
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

// source is where webhooks come from: a view of configurations.
type source struct {
	admission.View
	// ids begins the ids of its webhooks: another source may have configurations of the same names.
	ids string
}

// hooks derives a set from sources when they change.
type hooks = live.Derived[int64, *set]

// applying are the webhooks of a kind: which apply to a write depends on its own kind.
type applying struct {
	all *hooks // those of manifests, and then those that are stored
	// manifests has only those of manifests. Nil if there are none.
	manifests *hooks
	// notReviews says that none applies to reviews.
	notReviews bool
}

// newApplying makes the webhooks of two sources. There need be no manifests.
func newApplying(d *Deps, manifests, stored admission.View, compile compileFunc) applying {
	from := []source{{stored, ""}}
	if manifests == nil {
		return applying{all: newHooks(d, from, compile), notReviews: d.NotReviews}
	}
	first := source{manifests, "manifest/"}
	return applying{newHooks(d, append([]source{first}, from...), compile), newHooks(d, []source{first}, compile), d.NotReviews}
}

// to returns the webhooks that apply to a write; nil: none.
func (a *applying) to(ctx context.Context, write *admission.Attributes) (*set, error) {
	if a.notReviews && match.IsReview(write) {
		return nil, nil
	}
	if !match.IsConfiguration(write) {
		return a.all.Get(ctx)
	}
	if a.manifests == nil {
		return nil, nil
	}
	return a.manifests.Get(ctx)
}

// compileFunc compiles the webhooks of a configuration.
type compileFunc func(d *Deps, obj admission.Object) []*hook

func newHooks(d *Deps, from []source, compile compileFunc) *hooks {
	return &hooks{
		Revision: func(ctx context.Context) (sum int64, err error) {
			for _, s := range from { // each only rises, and so does the sum
				n, err := s.Changed(ctx)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		},
		Make: func(ctx context.Context, was *set) (*set, error) {
			s := &set{byVersion: map[string][]*hook{}}
			for _, source := range from {
				if err := s.add(ctx, d, source, was, compile); err != nil {
					return nil, err
				}
			}
			rules := make([]*match.Rules, len(s.hooks))
			for i, hook := range s.hooks {
				rules[i] = &hook.rules
			}
			s.table = match.NewTable(rules)
			return s, nil
		},
	}
}

// add adds the webhooks of a source. Those that are in the set before are not compiled again.
func (s *set) add(ctx context.Context, d *Deps, from source, was *set, compile compileFunc) error {
	objs, err := from.Objects(ctx)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		version := from.ids + obj.GetName() + "/" + obj.GetResourceVersion()
		var made []*hook
		if was != nil {
			made = was.byVersion[version]
		}
		if made == nil {
			made = compile(d, obj)
			for _, h := range made {
				h.id = from.ids + h.id
				h.shadow = obj.GetAnnotations()[ModeAnnotation] == Shadow
			}
		}
		s.byVersion[version] = made
		s.hooks = append(s.hooks, made...)
	}
	return nil
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
		id: ids.next(w.Name), configuration: ids.configuration, name: w.Name, target: newTarget(w.ClientConfig),
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
