package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

const unset = "<unset>"

func requestTable() *engine.Table {
	spec, status := lifecyclev1alpha1.EvictionRequestSpec{}.SwaggerDoc(), lifecyclev1alpha1.EvictionRequestStatus{}.SwaggerDoc()
	return engine.TableOf(requestRow,
		cells.Name(),
		cells.String("Target", spec["target"]),
		cells.String("Target Type", spec["target"]),
		cells.String("Status", status["conditions"]),
		cells.String("Requester", spec["requester"]),
		cells.String("Intent", spec["intent"]),
		cells.Age(),
	)
}

func requestRow(r *lifecyclev1alpha1.EvictionRequest) []any {
	name, kind := unset, unset
	if p := r.Spec.Target.Pod; p != nil {
		name, kind = p.Name, "Pod"
	}
	return []any{r.Name, name, kind, summary(r.Status.ObservedGeneration, r.Status.Conditions), r.Spec.Requester, string(r.Spec.Intent), cells.Since(r.CreationTimestamp)}
}

// summary says in a word how far an eviction is.
func summary(observed *int64, conditions []metav1.Condition) string {
	for _, kind := range []lifecyclev1alpha1.EvictionConditionType{lifecyclev1alpha1.EvictionConditionTargetEvicted, lifecyclev1alpha1.EvictionConditionFailed} {
		if c := meta.FindStatusCondition(conditions, string(kind)); c != nil && c.Status == metav1.ConditionTrue {
			return fmt.Sprintf("%s (%s)", c.Type, c.Reason)
		}
	}
	if observed != nil && *observed > 0 {
		return "Progressing"
	}
	return "Pending"
}

func evictionTable(now func() time.Time) *engine.Table {
	spec, status := lifecyclev1alpha1.EvictionSpec{}.SwaggerDoc(), lifecyclev1alpha1.EvictionStatus{}.SwaggerDoc()
	report := lifecyclev1alpha1.ResponderStatus{}.SwaggerDoc()
	return engine.TableOf(func(v *lifecyclev1alpha1.Eviction) []any { return evictionRow(v, now()) },
		cells.Name(),
		cells.String("Target", spec["target"]),
		cells.String("Target Type", spec["target"]),
		cells.String("Status", status["conditions"]),
		cells.String("Active Responder", lifecyclev1alpha1.TargetResponder{}.SwaggerDoc()["state"]),
		cells.String("Responder Status", report[""]),
		cells.String("Responder Expected Finish", report["expectedCompletionTime"]),
		cells.String("Requesters", status["requesters"]),
		cells.Age(),
		cells.Wide(cells.String("Responder Heartbeat", report["heartbeatTime"])),
		cells.Wide(cells.String("Responder Status Message", report["message"])),
	)
}

func evictionRow(v *lifecyclev1alpha1.Eviction, now time.Time) []any {
	name, kind := unset, unset
	if p := v.Spec.Target.Pod; p != nil {
		name, kind = p.Name, "Pod"
	}
	at, begun := current(v.Status.TargetResponders)
	of, report := unset, reported{unset, "<unknown>", unset, unset}
	if at != nil {
		of = at.Name
		if r := byName(v.Status.Responders, nameOfResponder)[of]; r != nil {
			report = reportedBy(at.State, r, now)
		}
	}
	return []any{
		v.Name, name, kind, summary(v.Status.ObservedGeneration, v.Status.Conditions),
		fmt.Sprintf("%s (%d/%d)", of, begun, len(v.Status.TargetResponders)), report.status, report.finish,
		wanting(v.Status.Requesters), cells.Since(v.CreationTimestamp), report.heartbeat, report.message,
	}
}

// current returns the active responder, or the last one that has ended, and how many have begun.
func current(list []lifecyclev1alpha1.TargetResponder) (at *lifecyclev1alpha1.TargetResponder, begun int) {
	running := false
	for i := range list {
		switch list[i].State {
		case active:
			at, running, begun = &list[i], true, begun+1
		case canceled, interrupted, completed:
			if begun++; !running {
				at = &list[i]
			}
		}
	}
	return at, begun
}

// reported is the cells about a responder.
type reported struct{ status, finish, heartbeat, message string }

func reportedBy(state lifecyclev1alpha1.ResponderStateType, r *lifecyclev1alpha1.ResponderStatus, now time.Time) reported {
	out := reported{string(state), "<unknown>", unset, unset}
	switch {
	case state == active && r.StartTime != nil:
		out.status = fmt.Sprintf("Started (%s ago)", cells.Since(*r.StartTime))
		if t := r.ExpectedCompletionTime; t != nil && t.After(now) {
			out.finish = "in " + duration.HumanDuration(t.Sub(now))
		} else if t != nil {
			out.finish = cells.Since(*t) + " ago"
		}
	case state == active:
	case state == completed && r.CompletionTime != nil:
		out.status = fmt.Sprintf("%s (%s ago)", state, cells.Since(*r.CompletionTime))
		out.finish = "-"
	default:
		out.finish = "-"
	}
	if r.HeartbeatTime != nil {
		out.heartbeat = cells.Since(*r.HeartbeatTime) + " ago"
	}
	if r.Message != nil {
		out.message = cells.Or(strings.TrimSpace(*r.Message), unset)
	}
	return out
}

// wanting names the first requester, in the order of names, that has not withdrawn.
func wanting(list []lifecyclev1alpha1.Requester) string {
	if len(list) == 0 {
		return "<none>"
	}
	var names []string
	for _, r := range list {
		if r.Intent != lifecyclev1alpha1.RequesterIntentWithdrawn {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return cells.Or(cells.First(1, names, ","), "<withdrawn>")
}
