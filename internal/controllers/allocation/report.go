package allocation

import (
	"context"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// finding is a fault that Repair found.
type finding struct {
	about                engine.Object
	reason, action, note string
}

// report logs findings and creates events for them, so that owners of the services see them too.
func (r *Repair) report(ctx context.Context, reporter string, findings []finding) {
	for _, f := range findings {
		r.log.Warn("an allocation was not in order", "kind", f.about.GetObjectKind().GroupVersionKind().Kind,
			"namespace", f.about.GetNamespace(), "name", f.about.GetName(), "reason", f.reason, "note", f.note)
		_, err := r.objects.Create(ctx, events, r.event(reporter, f))
		if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
			r.log.Warn("could not make an event", "error", err)
		}
	}
}

// event returns the event of a finding. The same finding about the same object has the same event name, so it is
// reported once while the event exists.
func (r *Repair) event(reporter string, f finding) *corev1.Event {
	namespace := f.about.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	h := fnv.New64a()
	fmt.Fprint(h, f.about.GetUID(), f.reason, f.note)
	gvk := f.about.GetObjectKind().GroupVersionKind()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%016x", f.about.GetName(), h.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, UID: f.about.GetUID(),
			Namespace: f.about.GetNamespace(), Name: f.about.GetName(), ResourceVersion: f.about.GetResourceVersion(),
		},
		Type: corev1.EventTypeWarning, Reason: f.reason, Action: f.action, Message: f.note,
		EventTime:           metav1.NewMicroTime(r.clock.Now()),
		ReportingController: reporter, ReportingInstance: reporter,
	}
}
