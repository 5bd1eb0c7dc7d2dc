package findings

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// AsEvents returns what makes an Event of a finding, in kube-system: errors are the administrators' business, and an Event in a namespace
// would tell of other objects to everybody who may read its Events.
func AsEvents(client *inprocess.Client, clk clock.PassiveClock, log *slog.Logger) func(ctx context.Context, f *v1alpha1.Finding) {
	return func(ctx context.Context, f *v1alpha1.Finding) {
		e := &corev1.Event{Type: corev1.EventTypeWarning, Reason: f.Check, Message: f.Summary, FirstTimestamp: f.Since, LastTimestamp: metav1.NewTime(clk.Now()), Count: 1,
			Source:         corev1.EventSource{Component: "kanzen"},
			InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Name: metav1.NamespaceSystem, Namespace: metav1.NamespaceSystem}}
		e.GenerateName, e.Namespace = "kanzen-finding-", metav1.NamespaceSystem
		if _, err := client.Create(ctx, inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("events"), Namespace: e.Namespace}, e); err != nil {
			log.Debug("a finding could not be reported as an Event", "finding", f.Name, "error", err)
		}
	}
}
