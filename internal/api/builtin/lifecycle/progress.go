package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Many write the status of an eviction: the controller, and each responder. This file keeps them in step, as the controller acts:
//
//	Inactive -> Active -> Completed, Interrupted or Canceled
//
// The responder of the highest priority becomes Active first; once it has ended, the next one does, until the pod is evicted or
// the eviction has failed. Nothing goes back, and only an Active responder reports.

const (
	// heartbeat is how long a responder is waited for that reports nothing.
	heartbeat = 20 * time.Minute
	// skew is how much clocks may differ.
	skew = 30 * time.Second
	// farthest is how far ahead a responder may expect its end.
	farthest = 10 * 365 * 24 * time.Hour
)

const (
	inactive    = lifecyclev1alpha1.ResponderStateInactive
	active      = lifecyclev1alpha1.ResponderStateActive
	interrupted = lifecyclev1alpha1.ResponderStateInterrupted
	canceled    = lifecyclev1alpha1.ResponderStateCanceled
	completed   = lifecyclev1alpha1.ResponderStateCompleted
)

// progress is a change of an eviction's status.
type progress struct {
	status, old *lifecyclev1alpha1.EvictionStatus
	// ended: the pod is evicted, or the eviction has failed.
	ended bool
	now   time.Time
}

// targets validates the states of responders, all of which are named at once.
func (p *progress) targets(e rules.Errors) {
	list, old := p.status.TargetResponders, p.old.TargetResponders
	names := byName(list, nameOfTarget)
	if len(old) > 0 {
		if len(list) != len(old) || slices.ContainsFunc(old, func(r lifecyclev1alpha1.TargetResponder) bool { return names[r.Name] == nil }) {
			e.Invalid(list, "cannot have other names than before")
			return
		}
	}
	if len(list) > maxResponders || len(names) != len(list) {
		return // reported already
	}
	index := map[string]int{}
	for i := range list {
		index[list[i].Name] = i
	}
	reports := map[string]*lifecyclev1alpha1.ResponderStatus{}
	for i := range p.status.Responders {
		reports[p.status.Responders[i].Name] = &p.status.Responders[i]
	}
	list, old = inOrder(list), inOrder(old)
	for i, r := range list {
		p.target(&r, reports[r.Name], p.allowed(list, old, i), e.Item(index[r.Name]))
	}
}

// allowed returns the states that the i-th responder, in their order, may now have.
func (p *progress) allowed(list, old []lifecyclev1alpha1.TargetResponder, i int) []lifecyclev1alpha1.ResponderStateType {
	over := []lifecyclev1alpha1.ResponderStateType{canceled, completed, interrupted}
	was := slices.IndexFunc(old, func(r lifecyclev1alpha1.TargetResponder) bool { return r.State == active })
	stopped := was >= 0 && list[was].State != active
	all := p.ended || len(old) > 0 && slices.Contains(over, old[len(old)-1].State)
	switch {
	case i < was, len(old) > 0 && was < 0 && all:
		return []lifecyclev1alpha1.ResponderStateType{old[i].State}
	case i == was && (stopped || p.ended):
		return over
	case i == was:
		return []lifecyclev1alpha1.ResponderStateType{active}
	case (i == 0 && len(old) == 0 || i == was+1 && stopped) && !p.ended:
		return []lifecyclev1alpha1.ResponderStateType{active}
	}
	return []lifecyclev1alpha1.ResponderStateType{inactive}
}

func (p *progress) target(r *lifecyclev1alpha1.TargetResponder, report *lifecyclev1alpha1.ResponderStatus, allowed []lifecyclev1alpha1.ResponderStateType, e rules.Errors) {
	if report == nil {
		e.Invalid(*r, "status.responders must have an item of the same name")
		return
	}
	if r.Priority != nil && *r.Priority >= 0 {
		own := r.Name == lifecyclev1alpha1.EvictionResponderImperativeEviction
		if own && *r.Priority != 100 {
			e.Field("priority").Invalid(*r.Priority, "must be 100 for "+r.Name)
		} else if !own && *r.Priority < 1000 {
			e.Field("priority").Invalid(*r.Priority, "those below 1000 are reserved for responders of Kubernetes")
		}
	}
	at := e.Field("state")
	if !slices.Contains(allowed, r.State) {
		at.Invalid(r.State, fmt.Sprintf("must now be one of %v", allowed))
		return
	}
	if r.State != active && report.StartTime != nil && report.CompletionTime == nil && !p.ended {
		last := report.StartTime
		if report.HeartbeatTime != nil {
			last = report.HeartbeatTime
		}
		if p.now.Before(last.Add(heartbeat - skew)) {
			at.Forbidden("the responder has not completed and may still report")
		}
	}
	if r.State == completed && report.CompletionTime == nil {
		at.Invalid(r.State, "the responder has no completionTime in status.responders")
	}
}

// inOrder returns a sorted copy: the highest priority first; among equals by domain, from the top down, then by key.
func inOrder(list []lifecyclev1alpha1.TargetResponder) []lifecyclev1alpha1.TargetResponder {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b lifecyclev1alpha1.TargetResponder) int {
		aDomain, aKey := parts(a.Name)
		bDomain, bKey := parts(b.Name)
		return cmp.Or(cmp.Compare(rank(b.Priority), rank(a.Priority)), slices.Compare(aDomain, bDomain), cmp.Compare(aKey, bKey))
	})
	return list
}

// rank puts a missing priority behind all others, even invalid ones.
func rank(priority *int32) int64 {
	if priority == nil {
		return -1 << 32
	}
	return int64(*priority)
}

func parts(name string) (domain []string, key string) {
	d, key, _ := strings.Cut(name, "/")
	domain = strings.Split(d, ".")
	slices.Reverse(domain)
	return domain, key
}

// responders validates the reports, of which each responder has one.
func (p *progress) responders(e rules.Errors) {
	list, targets := p.status.Responders, byName(p.status.TargetResponders, nameOfTarget)
	names := byName(list, nameOfResponder)
	differ := len(list) != len(p.status.TargetResponders)
	for name := range targets {
		differ = differ || names[name] == nil
	}
	if differ {
		e.Invalid(list, "must have the names of status.targetResponders")
		return
	}
	if len(list) > maxResponders || len(names) != len(list) {
		return // reported already
	}
	old := byName(p.old.Responders, nameOfResponder)
	for i := range list {
		t := targets[list[i].Name]
		p.responder(&list[i], old[list[i].Name], t != nil && t.State == active, e.Item(i))
	}
}

func (p *progress) responder(r, old *lifecyclev1alpha1.ResponderStatus, active bool, e rules.Errors) {
	if old == nil {
		old = &lifecyclev1alpha1.ResponderStatus{}
	} else if !active && !apiequality.Semantic.DeepEqual(r, old) {
		e.Invalid(r, "only the report of an active responder can change")
		return
	}
	start := e.Field("startTime")
	switch {
	case old.StartTime != nil && !old.StartTime.Equal(r.StartTime): // reported already
	case r.StartTime == nil && active:
		start.Required("an active responder has one")
	case r.StartTime != nil && !old.StartTime.Equal(r.StartTime):
		p.present(r.StartTime, start)
	}
	if at := e.Field("heartbeatTime"); r.HeartbeatTime == nil && old.HeartbeatTime != nil {
		at.Required("cannot be removed")
	} else if r.HeartbeatTime != nil && !old.HeartbeatTime.Equal(r.HeartbeatTime) {
		if r.StartTime != nil && r.HeartbeatTime.Before(old.HeartbeatTime) {
			at.Invalid(r.HeartbeatTime, "cannot be earlier than before")
		} else if started(r, r.HeartbeatTime, at) {
			p.present(r.HeartbeatTime, at)
		}
	}
	if at, t := e.Field("expectedCompletionTime"), r.ExpectedCompletionTime; t != nil && !old.ExpectedCompletionTime.Equal(t) && started(r, t, at) {
		if t.Time.Before(p.now.Add(-skew)) {
			at.Invalid(t, "is in the past")
		} else if t.After(p.now.Add(farthest)) {
			at.Invalid(t, "is more than ten years ahead")
		}
	}
	if at, t := e.Field("completionTime"), r.CompletionTime; t != nil && (old.CompletionTime == nil || old.CompletionTime.Equal(t)) &&
		started(r, t, at) && old.CompletionTime == nil {
		p.present(t, at)
	}
}

// started requires that a responder began before a time.
func started(r *lifecyclev1alpha1.ResponderStatus, t *metav1.Time, e rules.Errors) bool {
	switch {
	case r.StartTime == nil:
		e.Invalid(t, "cannot be set before the startTime is")
	case t.Before(r.StartTime):
		e.Invalid(t, "cannot be before the startTime")
	default:
		return true
	}
	return false
}

// present requires that a time is now.
func (p *progress) present(t *metav1.Time, e rules.Errors) {
	if !t.After(p.now.Add(-skew)) || !t.Time.Before(p.now.Add(skew)) {
		e.Invalid(t, "must be the present time")
	}
}
