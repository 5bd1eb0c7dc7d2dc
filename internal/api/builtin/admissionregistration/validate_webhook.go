package admissionregistration

import (
	"context"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	sideEffectClasses = []admissionv1.SideEffectClass{
		admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun,
		admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown,
	}
	noSideEffects = sideEffectClasses[:2]
	// reviewVersions are the supported versions of AdmissionReview.
	reviewVersions = []string{"v1", "v1beta1"}
)

// hook is the common fields of both kinds of webhooks.
type hook struct {
	name         string
	rules        []admissionv1.RuleWithOperations
	failure      *admissionv1.FailurePolicyType
	match        *admissionv1.MatchPolicyType
	sideEffects  *admissionv1.SideEffectClass
	timeout      *int32
	namespaces   *metav1.LabelSelector
	objects      *metav1.LabelSelector
	reinvocation *admissionv1.ReinvocationPolicyType
	client       *admissionv1.WebhookClientConfig
	conditions   []admissionv1.MatchCondition
	versions     []string
}

func mutatingHooks(c *admissionv1.MutatingWebhookConfiguration) []hook {
	var out []hook
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		out = append(out, hook{
			w.Name, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector,
			w.ObjectSelector, w.ReinvocationPolicy, &w.ClientConfig, w.MatchConditions, w.AdmissionReviewVersions,
		})
	}
	return out
}

func validatingHooks(c *admissionv1.ValidatingWebhookConfiguration) []hook {
	var out []hook
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		out = append(out, hook{
			w.Name, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector,
			w.ObjectSelector, nil, &w.ClientConfig, w.MatchConditions, w.AdmissionReviewVersions,
		})
	}
	return out
}

// hookOptions relax rules for stored webhooks.
type hookOptions struct {
	skipConditions       bool
	allowSideEffects     bool
	allowUnknownVersions bool
	allowSameNames       bool
	allowInvalidSelector bool
	stored               []admissionv1.MatchCondition
}

func hookOptionsFor(hooks, old []hook) hookOptions {
	o := hookOptions{skipConditions: len(hooks) == len(old)}
	var names []string
	for i, h := range old {
		if i < len(hooks) && !reflect.DeepEqual(hooks[i].conditions, h.conditions) {
			o.skipConditions = false
		}
		o.allowSideEffects = o.allowSideEffects || h.sideEffects == nil || !slices.Contains(noSideEffects, *h.sideEffects)
		o.allowUnknownVersions = o.allowUnknownVersions || len(h.versions) > 0 && !knowsVersion(h.versions)
		o.allowSameNames = o.allowSameNames || slices.Contains(names, h.name)
		names = append(names, h.name)
		o.allowInvalidSelector = o.allowInvalidSelector || rules.InvalidLabelSelector(h.namespaces) || rules.InvalidLabelSelector(h.objects)
		o.stored = append(o.stored, h.conditions...)
	}
	return o
}

func knowsVersion(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
}

func (v *validator) validateMutatingWebhooks(_ context.Context, c *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	errs := rules.GenericMeta(&c.ObjectMeta, false, rules.Subdomain)
	return append(errs, v.hooks(mutatingHooks(c), hookOptions{})...)
}

func (v *validator) validateMutatingWebhooksUpdate(_ context.Context, c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	errs := rules.GenericMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
	hooks := mutatingHooks(c)
	return append(errs, v.hooks(hooks, hookOptionsFor(hooks, mutatingHooks(old)))...)
}

func (v *validator) validateValidatingWebhooks(_ context.Context, c *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := rules.GenericMeta(&c.ObjectMeta, false, rules.Subdomain)
	return append(errs, v.hooks(validatingHooks(c), hookOptions{})...)
}

func (v *validator) validateValidatingWebhooksUpdate(_ context.Context, c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	errs := rules.GenericMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
	hooks := validatingHooks(c)
	return append(errs, v.hooks(hooks, hookOptionsFor(hooks, validatingHooks(old)))...)
}

func (v *validator) hooks(hooks []hook, o hookOptions) field.ErrorList {
	e := rules.At(field.NewPath("webhooks"))
	var names []string
	for i := range hooks {
		h, at := &hooks[i], e.Item(i)
		v.hook(h, at, o)
		if h.name != "" && slices.Contains(names, h.name) && !o.allowSameNames {
			at.Field("name").Duplicate(h.name)
		}
		names = append(names, h.name)
	}
	return e.List()
}

func (v *validator) hook(h *hook, e rules.Errors, o hookOptions) {
	e.Add(validation.IsFullyQualifiedName(e.Path().Child("name"), h.name))
	for i := range h.rules {
		ruleWithOperations(&h.rules[i], e.Field("rules").Item(i))
	}
	if h.failure != nil {
		rules.OneOf(e, "failurePolicy", *h.failure, failurePolicies)
	}
	if h.match != nil {
		rules.OneOf(e, "matchPolicy", *h.match, matchPolicies)
	}
	allowed := noSideEffects
	if o.allowSideEffects {
		allowed = sideEffectClasses
	}
	if h.sideEffects == nil {
		e.Field("sideEffects").Required("must specify one of None, NoneOnDryRun")
	} else {
		rules.OneOf(e, "sideEffects", *h.sideEffects, allowed)
	}
	if h.timeout != nil {
		if *h.timeout < 1 || *h.timeout > 30 {
			e.Field("timeoutSeconds").Invalid(*h.timeout, "the timeout value must be between 1 and 30 seconds")
		}
	}
	e.LabelSelector("namespaceSelector", h.namespaces, o.allowInvalidSelector)
	e.LabelSelector("objectSelector", h.objects, o.allowInvalidSelector)
	if h.reinvocation != nil {
		rules.OneOf(e, "reinvocationPolicy", *h.reinvocation, reinvocations)
	}
	clientConfig(h.client, e.Field("clientConfig"))
	if !o.skipConditions {
		v.matchConditions(h.conditions, false, o.stored, e.Field("matchConditions"))
	}
	versions(h.versions, e.Field("admissionReviewVersions"), o)
}

func versions(list []string, e rules.Errors, o hookOptions) {
	if len(list) == 0 {
		e.Required("must specify one of " + strings.Join(reviewVersions, ", "))
		return
	}
	for i, version := range list {
		if slices.Contains(list[:i], version) {
			e.Item(i).Invalid(version, "occurs before")
			continue
		}
		e.Item(i).Messages(version, validation.IsDNS1035Label(version))
	}
	if !knowsVersion(list) && !o.allowUnknownVersions {
		e.Invalid(list, "must include at least one of "+strings.Join(reviewVersions, ", "))
	}
}

func clientConfig(c *admissionv1.WebhookClientConfig, e rules.Errors) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		e.Required("exactly one of url or service is required")
	case c.URL != nil:
		rules.WebhookURL(*c.URL, e.Field("url"))
	default:
		// A missing name is reported as a missing namespace and vice versa, for compatibility.
		s := c.Service
		var port int32
		if s.Port != nil {
			port = *s.Port
		}
		rules.WebhookService(s.Name, s.Namespace, s.Path, port, e.Field("service"))
	}
}
