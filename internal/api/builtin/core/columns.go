package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func labelsText(l map[string]string) string { return labels.FormatLabels(l) }

func namespaceTable() *engine.Table {
	return engine.TableOf(namespaceRow,
		cells.Name(),
		cells.String("Status", "Whether the namespace is active or being deleted."),
		cells.Age(),
	)
}

func namespaceRow(n *corev1.Namespace) []any {
	return []any{n.Name, string(n.Status.Phase), cells.Since(n.CreationTimestamp)}
}

func configMapTable() *engine.Table {
	return engine.TableOf(configMapRow, cells.Name(), cells.String("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), cells.Age())
}

func configMapRow(c *corev1.ConfigMap) []any {
	return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), cells.Since(c.CreationTimestamp)}
}

func secretTable() *engine.Table {
	doc := corev1.Secret{}.SwaggerDoc()
	return engine.TableOf(secretRow,
		cells.Name(), cells.String("Type", doc["type"]), cells.String("Data", doc["data"]), cells.Age(),
	)
}

func secretRow(s *corev1.Secret) []any {
	return []any{s.Name, string(s.Type), int64(len(s.Data)), cells.Since(s.CreationTimestamp)}
}

func serviceAccountTable() *engine.Table {
	return engine.TableOf(serviceAccountRow, cells.Name(), cells.Age())
}

func serviceAccountRow(a *corev1.ServiceAccount) []any {
	return []any{a.Name, cells.Since(a.CreationTimestamp)}
}

func replicationControllerTable() *engine.Table {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return engine.TableOf(replicationControllerRow, cells.Workload(spec["selector"],
		cells.Name(),
		cells.Integer("Desired", spec["replicas"]),
		cells.Integer("Current", status["replicas"]),
		cells.Integer("Ready", status["readyReplicas"]),
		cells.Age(),
	)...)
}

func replicationControllerRow(rc *corev1.ReplicationController) []any {
	var desired int64
	if r := rc.Spec.Replicas; r != nil {
		desired = int64(*r)
	}
	names, images := "", ""
	if t := rc.Spec.Template; t != nil {
		names, images = cells.Containers(t.Spec.Containers)
	}
	return []any{
		rc.Name, desired, int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
		cells.Since(rc.CreationTimestamp), names, images, labelsText(rc.Spec.Selector),
	}
}

func resourceQuotaTable() *engine.Table {
	return engine.TableOf(resourceQuotaRow,
		cells.Name(),
		cells.String("Request", "What is used out of the quota, limits aside."),
		cells.String("Limit", "What is used out of the quota of limits."),
		cells.Age(),
	)
}

func resourceQuotaRow(q *corev1.ResourceQuota) []any {
	var requests, limits []string
	for name, hard := range q.Status.Hard {
		used := q.Status.Used[name]
		text := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, text)
		} else {
			requests = append(requests, text)
		}
	}
	// Compare only the names: the ':' after a name would sort before some letters of a longer one.
	byName := func(a, b string) int {
		a, _, _ = strings.Cut(a, ": ")
		b, _, _ = strings.Cut(b, ": ")
		return strings.Compare(a, b)
	}
	slices.SortFunc(requests, byName)
	slices.SortFunc(limits, byName)
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), cells.Since(q.CreationTimestamp)}
}

func componentStatusTable() *engine.Table {
	return engine.TableOf(componentStatusRow,
		cells.Name(),
		cells.String("Status", "Whether the component is healthy."),
		cells.String("Message", "What the component says."),
		cells.String("Error", "What went wrong in asking it."),
	)
}

func componentStatusRow(c *corev1.ComponentStatus) []any {
	for _, cond := range c.Conditions {
		if cond.Type != corev1.ComponentHealthy {
			continue
		}
		status := "Unhealthy"
		if cond.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
		return []any{c.Name, status, cond.Message, cond.Error}
	}
	return []any{c.Name, "Unknown", "", ""}
}

func eventTable() *engine.Table {
	doc := corev1.Event{}.SwaggerDoc()
	return engine.TableOf(eventRow,
		cells.String("Last Seen", doc["lastTimestamp"]),
		cells.String("Type", doc["type"]),
		cells.String("Reason", doc["reason"]),
		cells.String("Object", doc["involvedObject"]),
		cells.Wide(cells.String("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
		cells.Wide(cells.String("Source", doc["source"])),
		cells.String("Message", doc["message"]),
		cells.Wide(cells.String("First Seen", doc["firstTimestamp"])),
		cells.Wide(cells.String("Count", doc["count"])),
		cells.Wide(cells.Name()),
	)
}

func eventRow(e *corev1.Event) []any {
	first := cells.Since(e.FirstTimestamp)
	if e.FirstTimestamp.IsZero() {
		first = cells.SinceMicro(e.EventTime)
	}
	last, count := cells.Since(e.LastTimestamp), e.Count
	if e.LastTimestamp.IsZero() {
		last = first
	}
	switch {
	case e.Series != nil:
		last, count = cells.SinceMicro(e.Series.LastObservedTime), e.Series.Count
	case count == 0: // events.k8s.io counts only series
		count = 1
	}
	about := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		about += "/" + e.InvolvedObject.Name
	}
	source := cells.Or(e.Source.Component, e.ReportingController)
	if host := cells.Or(e.Source.Host, e.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, e.Type, e.Reason, about, e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message), first,
		int64(count), e.Name,
	}
}
