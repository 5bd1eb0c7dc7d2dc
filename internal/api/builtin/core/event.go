package core

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func events(d Deps) *engine.Resource {
	newer := engine.VersionOf[eventsv1.Event, eventsv1.EventList](eventsV1, nil)
	newer.ToHub, newer.FromHub = eventToCore, eventFromCore
	newer.FieldLabels = newerEventLabels
	return &engine.Resource{
		Plural: "events", Kind: "Event",
		NoGarbageCollection: true,
		ShortNames:          []string{"ev"},
		Namespaced:          true,
		Versions: []*engine.Version{
			engine.VersionOf[corev1.Event, corev1.EventList](v1, nil),
			newer,
		},
		Rules: engine.Typed[*corev1.Event]{
			CreateOnUpdate: true,
			Validate:       validateEvent,
			ValidateUpdate: validateEventUpdate,
		}.Rules(),
		Fields: engine.Fields(eventFields),
		TTL:    func(engine.Object) time.Duration { return d.EventTTL },
		Table:  eventTable(),
	}
}

func eventFields(e *corev1.Event) fields.Set {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	return fields.Set{
		"involvedObject.kind":            e.InvolvedObject.Kind,
		"involvedObject.namespace":       e.InvolvedObject.Namespace,
		"involvedObject.name":            e.InvolvedObject.Name,
		"involvedObject.uid":             string(e.InvolvedObject.UID),
		"involvedObject.apiVersion":      e.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       e.InvolvedObject.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             e.ReportingController,
		"source":                         source,
		"type":                           e.Type,
	}
}

// newerEventLabels are the field labels of selectors in events.k8s.io.
var newerEventLabels = map[string]string{
	"metadata.namespace":        "metadata.namespace",
	"reason":                    "reason",
	"type":                      "type",
	"regarding.kind":            "involvedObject.kind",
	"regarding.namespace":       "involvedObject.namespace",
	"regarding.name":            "involvedObject.name",
	"regarding.uid":             "involvedObject.uid",
	"regarding.apiVersion":      "involvedObject.apiVersion",
	"regarding.resourceVersion": "involvedObject.resourceVersion",
	"regarding.fieldPath":       "involvedObject.fieldPath",
	"reportingController":       "reportingComponent",
}

func eventToCore(_ context.Context, obj engine.Object) (engine.Object, error) {
	e, ok := obj.(*eventsv1.Event)
	if !ok {
		return nil, fmt.Errorf("convert %T to a core event", obj)
	}
	out := &corev1.Event{
		ObjectMeta:          e.ObjectMeta,
		InvolvedObject:      e.Regarding,
		Reason:              e.Reason,
		Message:             e.Note,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
		Type:                e.Type,
		EventTime:           e.EventTime,
		Action:              e.Action,
		Related:             e.Related,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
	}
	if s := e.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out, nil
}

func eventFromCore(_ context.Context, obj engine.Object) (engine.Object, error) {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return nil, fmt.Errorf("convert %T from a core event", obj)
	}
	out := &eventsv1.Event{
		ObjectMeta:               e.ObjectMeta,
		Regarding:                e.InvolvedObject,
		Reason:                   e.Reason,
		Note:                     e.Message,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp:  e.LastTimestamp,
		DeprecatedCount:          e.Count,
		Type:                     e.Type,
		EventTime:                e.EventTime,
		Action:                   e.Action,
		Related:                  e.Related,
		ReportingController:      e.ReportingController,
		ReportingInstance:        e.ReportingInstance,
	}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out, nil
}
