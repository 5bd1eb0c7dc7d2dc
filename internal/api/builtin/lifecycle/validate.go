package lifecycle

import (
	"context"
	"regexp"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// maxItems is the longest list of conditions, and of requesters.
const maxItems = 100

func validateRequest(_ context.Context, r *lifecyclev1alpha1.EvictionRequest) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaOfName(&r.ObjectMeta, true, rules.Subdomain))
	podTarget(r.Spec.Target.Pod != nil, func() (string, types.UID) { return r.Spec.Target.Pod.Name, r.Spec.Target.Pod.UID }, e.Field("target"))
	if e.Present("requester", r.Spec.Requester) {
		requester(r.Spec.Requester, e.Field("requester"))
	}
	intent(r.Spec.Intent, e)
	return e.List()
}

// validateRequestUpdate allows a change of the intent.
func validateRequestUpdate(_ context.Context, r, old *lifecyclev1alpha1.EvictionRequest) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta))
	e.Add(rules.Immutable(r.Spec.Target, old.Spec.Target, e.Path().Child("target")))
	e.Add(rules.Immutable(r.Spec.Requester, old.Spec.Requester, e.Path().Child("requester")))
	if r.Spec.Intent != old.Spec.Intent {
		intent(r.Spec.Intent, e)
	}
	return e.List()
}

func intent(i lifecyclev1alpha1.EvictionRequestIntent, e rules.Errors) {
	rules.RequiredOneOf(e, "intent", i, []lifecyclev1alpha1.EvictionRequestIntent{
		lifecyclev1alpha1.EvictionRequestIntentEviction, lifecyclev1alpha1.EvictionRequestIntentWithdrawn,
	})
}

// podTarget validates the name and uid of the pod to evict, if one is given, as it must be: nothing else can be evicted.
func podTarget(given bool, of func() (name string, uid types.UID), e rules.Errors) {
	if !given {
		e.Invalid("", "must specify `pod`")
		return
	}
	name, uid := of()
	e = e.Field("pod")
	if e.Present("name", name) {
		e.Field("name").Messages(name, validation.IsDNS1123Subdomain(name))
	}
	if e.Present("uid", string(uid)) && !uuid.MatchString(string(uid)) {
		e.Field("uid").Invalid(uid, "must be a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in lower case")
	}
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// requester validates the name of a user's program: a label key with a domain that is not Kubernetes'.
func requester(name string, e rules.Errors) {
	if rules.OfKubernetes(name) {
		e.Invalid(name, "the domains k8s.io and kubernetes.io, and those below, are reserved")
	}
	e.Messages(name, content.IsPrefixedLabelKey(name))
}

func validateRequestStatus(_ context.Context, r, old *lifecyclev1alpha1.EvictionRequest) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta))
	conditions(r.Status.Conditions, old.Status.Conditions, e.Field("conditions"))
	observed(r.Status.ObservedGeneration, old.Status.ObservedGeneration, e.Field("observedGeneration"))
	return e.List()
}

func conditions(list, old []metav1.Condition, e rules.Errors) {
	if len(list) > maxItems && !apiequality.Semantic.DeepEqual(list, old) {
		e.AddError(field.TooMany(e.Path(), len(list), maxItems))
	}
	e.Add(metavalidation.ValidateConditions(list, e.Path()))
}

// observed validates the generation that the controller has seen, which it raises.
func observed(generation, old *int64, e rules.Errors) {
	switch {
	case generation == nil && old != nil:
		e.Invalid(nil, "cannot be removed")
	case generation == nil || old != nil && *generation == *old:
	default:
		if *generation < 1 {
			e.Invalid(*generation, "must be at least 1")
		}
		if old != nil && *generation < *old {
			e.Invalid(*generation, "cannot be decreased")
		}
	}
}
