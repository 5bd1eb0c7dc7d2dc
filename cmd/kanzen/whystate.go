package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file tells what an object says of its own state.

// stated is what 'kanzen why' reads of an object. What a kind calls otherwise is missing.
type stated struct {
	Metadata metav1.ObjectMeta
	Spec     json.RawMessage
	Status   json.RawMessage
}

// partOf returns a part of a spec or status; the zero value if there is none, or if the kind has something else there.
func partOf[T any](from json.RawMessage, field string) (out T) {
	var all map[string]json.RawMessage
	if json.Unmarshal(from, &all) != nil || json.Unmarshal(all[field], &out) != nil {
		var none T
		return none
	}
	return out
}

// state adds what an object says of itself to its story: what it waits for, and its conditions.
func (s *story) state(o *stated) {
	m, conditions := &o.Metadata, partOf[[]metav1.Condition](o.Status, "conditions")
	if m.DeletionTimestamp != nil {
		for _, f := range m.Finalizers {
			s.waits("finalizer %s: %s must remove it", f, keeper(m, f))
		}
		for _, c := range conditions {
			if c.Status == metav1.ConditionTrue && c.Message != "" {
				s.waits("%s: %s", c.Type, c.Message)
			}
		}
		return
	}
	s.Conditions = conditions
	if seen := partOf[*int64](o.Status, "observedGeneration"); (seen != nil || s.replicated()) && generation(seen) < m.Generation {
		s.waits("its controller, which has seen generation %d of %d", generation(seen), m.Generation)
	}
	if wanted := partOf[*int32](o.Spec, "replicas"); wanted != nil && s.replicated() {
		if ready := partOf[int32](o.Status, "readyReplicas"); ready < *wanted {
			s.waits("replicas: %d of %d are ready", ready, *wanted)
		}
	}
	if s.Object.Group == "" && s.Object.Resource == "pods" {
		s.podWaits(o, conditions)
	}
}

func (s *story) waits(format string, args ...any) {
	s.Waits = append(s.Waits, fmt.Sprintf(format, args...))
}

func generation(seen *int64) int64 {
	if seen == nil {
		return 0
	}
	return *seen
}

// replicated says that the object is of a kind of which a controller makes replicas, and says in the status how far it has come.
func (s *story) replicated() bool {
	return s.Object.Group == "apps" && slices.Contains([]string{"deployments", "replicasets", "statefulsets"}, s.Object.Resource)
}

// podWaits adds what a pod waits for: a node, or what its containers say.
func (s *story) podWaits(o *stated, conditions []metav1.Condition) {
	if partOf[string](o.Status, "phase") == string(corev1.PodPending) && partOf[string](o.Spec, "nodeName") == "" &&
		!slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == string(corev1.PodScheduled) }) {
		s.waits("a scheduler, which has not looked at it")
	}
	for _, of := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range partOf[[]corev1.ContainerStatus](o.Status, of) {
			if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
				s.waits("container %s: %s", c.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
			}
		}
	}
}

// printState prints what the object waits for, and its conditions.
func (s *story) printState(w io.Writer, now time.Time) {
	for _, x := range s.Waits {
		tell(w, "  waits for %s\n", x)
	}
	for _, c := range s.Conditions {
		tell(w, "  %s is %s", c.Type, c.Status)
		if !c.LastTransitionTime.IsZero() {
			tell(w, " for %s", now.Sub(c.LastTransitionTime.Time).Round(time.Second))
		}
		if said := strings.TrimSuffix(strings.TrimPrefix(c.Reason+": "+c.Message, ": "), ": "); said != "" {
			tell(w, ", %s", said)
		}
		tell(w, "\n")
	}
}
