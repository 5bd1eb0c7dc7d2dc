package lifecycle

import (
	"context"
	"unicode/utf8"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	// maxResponders is those that a pod can name, and Kubernetes' own.
	maxResponders = 11
	// longestMessage is counted in characters.
	longestMessage = 4000
	maxPriority    = 100000
)

func validateEviction(_ context.Context, v *lifecyclev1alpha1.Eviction) field.ErrorList {
	e := rules.At(field.NewPath("spec", "target"))
	e.Add(rules.ObjectMetaOfName(&v.ObjectMeta, true, rules.Subdomain))
	podTarget(v.Spec.Target.Pod != nil, func() (string, types.UID) { return v.Spec.Target.Pod.Name, v.Spec.Target.Pod.UID }, e)
	return e.List()
}

func validateEvictionUpdate(_ context.Context, v, old *lifecyclev1alpha1.Eviction) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&v.ObjectMeta, &old.ObjectMeta)
	return append(errs, rules.Immutable(v.Spec.Target, old.Spec.Target, field.NewPath("spec", "target"))...)
}

// validateEvictionStatus validates what the controller and the responders report.
func (d Deps) validateEvictionStatus(_ context.Context, v, old *lifecyclev1alpha1.Eviction) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMetaUpdate(&v.ObjectMeta, &old.ObjectMeta))
	s, was := &v.Status, &old.Status
	conditions(s.Conditions, was.Conditions, e.Field("conditions"))
	observed(s.ObservedGeneration, was.ObservedGeneration, e.Field("observedGeneration"))
	eachOf(s.Requesters, was.Requesters, maxItems, nameOfRequester, e.Field("requesters"),
		func(r, _ *lifecyclev1alpha1.Requester, e rules.Errors) {
			key(r.Name, e)
			rules.RequiredOneOf(e, "intent", r.Intent, []lifecyclev1alpha1.RequesterIntent{lifecyclev1alpha1.RequesterIntentEviction, lifecyclev1alpha1.RequesterIntentWithdrawn})
		})
	eachOf(s.TargetResponders, was.TargetResponders, maxResponders, nameOfTarget, e.Field("targetResponders"), target)
	eachOf(s.Responders, was.Responders, maxResponders, nameOfResponder, e.Field("responders"), responder)

	p := &progress{status: s, old: was, now: d.Now()}
	p.ended = finalConditions(s.Conditions, was.Conditions, e.Field("conditions"))
	p.targets(e.Field("targetResponders"))
	p.responders(e.Field("responders"))
	return e.List()
}

func nameOfRequester(r *lifecyclev1alpha1.Requester) string       { return r.Name }
func nameOfTarget(r *lifecyclev1alpha1.TargetResponder) string    { return r.Name }
func nameOfResponder(r *lifecyclev1alpha1.ResponderStatus) string { return r.Name }

// eachOf validates the items of a list, which is not too long and has each name once. Items that are as they were are not
// validated again. Check gets the item that had the same name, or nil.
func eachOf[T any](list, old []T, most int, name func(*T) string, e rules.Errors, check func(item, old *T, e rules.Errors)) {
	if apiequality.Semantic.DeepEqual(list, old) {
		return
	}
	if len(list) > most {
		e.AddError(field.TooMany(e.Path(), len(list), most))
		return
	}
	was := byName(old, name)
	seen := map[string]bool{}
	for i := range list {
		n, e := name(&list[i]), e.Item(i)
		if seen[n] {
			e.Duplicate(list[i])
		}
		seen[n] = true
		if before := was[n]; before == nil || !apiequality.Semantic.DeepEqual(&list[i], before) {
			check(&list[i], before, e)
		}
	}
}

// byName has the first item of each name.
func byName[T any](list []T, name func(*T) string) map[string]*T {
	out := make(map[string]*T, len(list))
	for i := range list {
		if n := name(&list[i]); out[n] == nil {
			out[n] = &list[i]
		}
	}
	return out
}

// key validates the name of a requester or responder.
func key(name string, e rules.Errors) {
	if e.Present("name", name) {
		e.Field("name").Messages(name, content.IsPrefixedLabelKey(name))
	}
}

func target(r, old *lifecyclev1alpha1.TargetResponder, e rules.Errors) {
	key(r.Name, e)
	at := e.Field("priority")
	switch {
	case r.Priority == nil:
		at.Required("")
		if old != nil && old.Priority != nil {
			at.Invalid(nil, "cannot be removed")
		}
	case old != nil && old.Priority != nil:
		if *r.Priority != *old.Priority {
			at.Invalid(nil, "cannot be changed")
		}
	case *r.Priority > maxPriority || *r.Priority < 0:
		at.Invalid(*r.Priority, "must be between 0 and 100000")
	}
	if old != nil && r.State == old.State {
		return
	}
	rules.RequiredOneOf(e, "state", r.State, []lifecyclev1alpha1.ResponderStateType{
		lifecyclev1alpha1.ResponderStateActive, lifecyclev1alpha1.ResponderStateCanceled, lifecyclev1alpha1.ResponderStateCompleted,
		lifecyclev1alpha1.ResponderStateInactive, lifecyclev1alpha1.ResponderStateInterrupted,
	})
}

func responder(r, old *lifecyclev1alpha1.ResponderStatus, e rules.Errors) {
	key(r.Name, e)
	if old == nil {
		old = &lifecyclev1alpha1.ResponderStatus{}
	}
	setOnce(r.StartTime, old.StartTime, e.Field("startTime"))
	setOnce(r.CompletionTime, old.CompletionTime, e.Field("completionTime"))
	if r.Message != nil && utf8.RuneCountInString(*r.Message) > longestMessage && (old.Message == nil || *r.Message != *old.Message) {
		e.Field("message").TooLong(longestMessage)
	}
}

func setOnce(t, old *metav1.Time, e rules.Errors) {
	if old != nil && !old.Equal(t) {
		e.Invalid(nil, "cannot be changed once it is set")
	}
}

// finalConditions reports whether the eviction has succeeded or failed, and errors if it had and now has not.
func finalConditions(list, old []metav1.Condition, e rules.Errors) bool {
	ended := false
	for _, kind := range []lifecyclev1alpha1.EvictionConditionType{lifecyclev1alpha1.EvictionConditionTargetEvicted, lifecyclev1alpha1.EvictionConditionFailed} {
		is, was := meta.FindStatusCondition(list, string(kind)), meta.FindStatusCondition(old, string(kind))
		ended = ended || is != nil && is.Status == metav1.ConditionTrue
		if was == nil || was.Status != metav1.ConditionTrue {
			continue
		}
		if is == nil || is.Status == metav1.ConditionFalse || is.Reason != was.Reason {
			e.Invalid(list, "the condition "+string(kind)+" is final")
			ended = true
		}
	}
	return ended
}
