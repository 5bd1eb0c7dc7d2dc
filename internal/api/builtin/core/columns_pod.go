package core

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func podTable() *engine.Table {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return &engine.Table{
		Columns: []cells.Column{
			cells.Name(),
			cells.String("Ready", "Ready containers out of all."),
			cells.String("Status", "What the pod's containers are doing, in one word."),
			cells.String("Restarts", "How often containers were restarted, and when last."),
			cells.Age(),
			cells.Wide(cells.String("IP", status["podIP"])),
			cells.Wide(cells.String("Node", spec["nodeName"])),
			cells.Wide(cells.String("Nominated Node", status["nominatedNodeName"])),
			cells.Wide(cells.String("Readiness Gates", spec["readinessGates"])),
		},
		Row: func(obj engine.Object) ([]any, []metav1.TableRowCondition) {
			p := obj.(*corev1.Pod)
			return podRow(p), podRowConditions(p)
		},
	}
}

func podRow(p *corev1.Pod) []any {
	s := summarize(p)
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.state, s.restarts.String(), cells.Since(p.CreationTimestamp),
		cells.Or(ip, cells.None), cells.Or(p.Spec.NodeName, cells.None),
		cells.Or(p.Status.NominatedNodeName, cells.None), readinessGates(p),
	}
}

// podRowConditions marks finished pods, which clients may hide.
func podRowConditions(p *corev1.Pod) []metav1.TableRowCondition {
	message := ""
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		message = "All containers of the pod have ended well."
	case corev1.PodFailed:
		message = "The pod has ended with a failure."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(p.Status.Phase), Message: message,
	}}
}

// podSummary summarizes the containers of a pod.
type podSummary struct {
	ready, total int
	state        string
	restarts     restarts
}

// restarts counts restarts and records the time of the last one.
type restarts struct {
	count int
	last  metav1.Time
}

func (r *restarts) add(s *corev1.ContainerStatus) {
	r.count += int(s.RestartCount)
	if t := s.LastTerminationState.Terminated; t != nil && r.last.Before(&t.FinishedAt) {
		r.last = t.FinishedAt
	}
}

func (r restarts) String() string {
	if r.count != 0 && !r.last.IsZero() {
		return fmt.Sprintf("%d (%s ago)", r.count, cells.Since(r.last))
	}
	return strconv.Itoa(r.count)
}

func summarize(p *corev1.Pod) podSummary {
	s := podSummary{total: len(p.Spec.Containers), state: cells.Or(p.Status.Reason, string(p.Status.Phase))}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.state = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	sidecarRestarts, initializing := s.addInit(p, sidecars)
	if !initializing || podCondition(p, corev1.PodInitialized) {
		s.restarts = sidecarRestarts // main containers have started: init containers no longer count
		s.addContainers(p)
	}
	switch {
	case p.DeletionTimestamp == nil:
	case p.Status.Reason == "NodeLost": // its kubelet does not respond, so its termination is unknown
		s.state = "Unknown"
	case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		s.state = "Terminating"
	}
	return s
}

// addInit adds the init containers up to the first unfinished one, and reports whether there is one.
func (s *podSummary) addInit(p *corev1.Pod, sidecars map[string]bool) (sidecarRestarts restarts, initializing bool) {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.restarts.add(c)
		if sidecars[c.Name] {
			sidecarRestarts.add(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.state = "Init:" + endText(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.state = "Init:" + waiting.Reason
		default:
			s.state = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return sidecarRestarts, true
	}
	return sidecarRestarts, false
}

// addContainers adds the main containers. The first container with a reason determines the status, so the loop runs
// backwards.
func (s *podSummary) addContainers(p *corev1.Pod) {
	running, failure := false, ""
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.restarts.add(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.state = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.state = endText(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.state
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.state != "Completed" {
		return
	}
	switch { // a container completed successfully; running ones take precedence
	case running && podCondition(p, corev1.PodReady):
		s.state = "Running"
	case failure != "":
		s.state = failure
	case running:
		s.state = "NotReady"
	}
}

func endText(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// podCondition reports whether the pod has a true condition of this type.
func podCondition(p *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func readinessGates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return cells.None
	}
	open := 0
	for _, g := range p.Spec.ReadinessGates {
		if podCondition(p, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

func podTemplateTable() *engine.Table {
	return engine.TableOf(podTemplateRow,
		cells.Name(),
		cells.String("Containers", "Names of the containers in the pod template."),
		cells.String("Images", "Images of the containers in the pod template."),
		cells.String("Pod Labels", "Labels of the pod template."),
	)
}

func podTemplateRow(t *corev1.PodTemplate) []any {
	names, images := cells.Containers(t.Template.Spec.Containers)
	return []any{t.Name, names, images, labelsText(t.Template.Labels)}
}
