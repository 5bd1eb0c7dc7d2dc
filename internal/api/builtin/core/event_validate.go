package core

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Validation of events depends on the version of the request: core/v1 accepts nearly anything, for compatibility;
// events.k8s.io/v1 requires the fields that replaced the old ones, and allows changes only of the series.

func isNewEvent(ctx context.Context) bool {
	info := request.InfoFrom(ctx)
	return info != nil && info.Group == eventsV1.Group
}

func validateEvent(ctx context.Context, ev *corev1.Event) field.ErrorList {
	e := rules.At(nil)
	strict := isNewEvent(ctx)
	anyEvent(ev, strict, e)
	if !strict {
		return e.List()
	}
	e.Add(rules.ObjectMeta(&ev.ObjectMeta, true, rules.Subdomain))
	eventSeries(ev.Series, e)
	if ev.EventTime.IsZero() {
		e.Field("eventTime").Required("")
	}
	if ev.Type != corev1.EventTypeNormal && ev.Type != corev1.EventTypeWarning {
		e.Field("type").Invalid("", "has invalid value: "+ev.Type)
	}
	for _, old := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !ev.FirstTimestamp.IsZero()},
		{"lastTimestamp", !ev.LastTimestamp.IsZero()},
		{"count", ev.Count != 0},
		{"source", ev.Source != corev1.EventSource{}},
	} {
		if old.set {
			e.Field(old.name).Invalid("", "must not be set")
		}
	}
	return e.List()
}

func validateEventUpdate(ctx context.Context, ev, old *corev1.Event) field.ErrorList {
	e := rules.At(nil)
	strict := isNewEvent(ctx)
	anyEvent(ev, strict, e)
	if !strict {
		return e.List()
	}
	e.Add(rules.ObjectMetaUpdate(&ev.ObjectMeta, &old.ObjectMeta))
	if !reflect.DeepEqual(ev.Series, old.Series) {
		eventSeries(ev.Series, e)
	}
	for _, f := range []struct {
		name       string
		value, old any
	}{
		{"involvedObject", ev.InvolvedObject, old.InvolvedObject},
		{"reason", ev.Reason, old.Reason},
		{"message", ev.Message, old.Message},
		{"source", ev.Source, old.Source},
		{"firstTimestamp", ev.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", ev.LastTimestamp, old.LastTimestamp},
		{"count", ev.Count, old.Count},
		{"type", ev.Type, old.Type},
		{"action", ev.Action, old.Action},
		{"related", ev.Related, old.Related},
		{"reportingController", ev.ReportingController, old.ReportingController},
		{"reportingInstance", ev.ReportingInstance, old.ReportingInstance},
	} {
		e.Add(rules.Immutable(f.value, f.old, field.NewPath(f.name)))
	}
	// Stored times have microseconds.
	if !ev.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		e.Add(rules.Immutable(ev.EventTime, old.EventTime, field.NewPath("eventTime")))
	}
	return e.List()
}

func eventSeries(s *corev1.EventSeries, e rules.Errors) {
	if s == nil {
		return
	}
	if s.Count < 2 {
		e.Elsewhere(field.NewPath("series.count")).Invalid(s.Count, "must be at least 2")
	}
	if s.LastObservedTime.IsZero() {
		e.Elsewhere(field.NewPath("series.lastObservedTime")).Required("")
	}
}

// anyEvent validates what applies to every version. An eventTime marks an event of the new kind, in either version.
func anyEvent(ev *corev1.Event, strict bool, e rules.Errors) {
	involved := e.Elsewhere(field.NewPath("involvedObject", "namespace"))
	const mismatch = "does not match event.namespace"
	about := ev.InvolvedObject.Namespace
	if ev.EventTime.IsZero() {
		cluster := about == "" && (ev.Namespace == metav1.NamespaceNone || ev.Namespace == metav1.NamespaceDefault)
		if !cluster && about != ev.Namespace {
			involved.Invalid(about, mismatch)
		}
	} else {
		if about == "" && ev.Namespace != metav1.NamespaceDefault && ev.Namespace != metav1.NamespaceSystem {
			involved.Invalid(about, mismatch)
		}
		reporter := "reportingComponent"
		if strict {
			reporter = "reportingController"
		}
		e.Present(reporter, ev.ReportingController)
		e.LabelKey(reporter, ev.ReportingController)
		shortText("reportingInstance", ev.ReportingInstance, e)
		shortText("action", ev.Action, e)
		shortText("reason", ev.Reason, e)
		if len(ev.Message) > 1024 {
			e.Field("message").Invalid("", "can have at most 1024 characters")
		}
	}
	e.Field("namespace").Messages(ev.Namespace, validation.IsDNS1123Subdomain(ev.Namespace))
}

func shortText(name, value string, e rules.Errors) {
	const longest = 128
	if e.Present(name, value) && len(value) > longest {
		e.Field(name).Invalid("", fmt.Sprintf("can have at most %d characters", longest))
	}
}
