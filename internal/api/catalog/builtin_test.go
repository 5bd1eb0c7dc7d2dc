package catalog

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// A built-in resource has no view before somebody asks for it, or for all there are. One in two groups has the same view in both.
func TestViewsAreMadeWhenAsked(t *testing.T) {
	stored := store.NewCluster(memory.New(clock.RealClock{}), store.Options{Prefix: "/registry/"})
	eng := engine.New(engine.Config{Store: stored})
	version := func(gv schema.GroupVersion) *engine.Version {
		return &engine.Version{GroupVersion: gv, New: func() engine.Object { return &metav1.PartialObjectMetadata{} }}
	}
	l := New()
	l.Begin(Builtin(eng, []*engine.Resource{
		{Plural: "pods", Kind: "Pod", Prefix: "pods", Hub: corev1.SchemeGroupVersion, Versions: []*engine.Version{version(corev1.SchemeGroupVersion)}},
		{Plural: "events", Kind: "Event", Prefix: "events", Hub: corev1.SchemeGroupVersion,
			Versions: []*engine.Version{version(eventsv1.SchemeGroupVersion), version(corev1.SchemeGroupVersion)}},
		{Plural: "bindings", Kind: "Binding", Hub: corev1.SchemeGroupVersion, Versions: []*engine.Version{version(corev1.SchemeGroupVersion)}},
	}, func(gvr schema.GroupVersionResource) bool { return gvr.Resource != "bindings" })...)
	if n := len(stored.Views()); n > 0 {
		t.Fatalf("%d views before anybody has asked", n)
	}
	old, err := l.Endpoint(schema.GroupResource{Resource: "events"})
	if err != nil {
		t.Fatal(err)
	}
	event := l.Reach(schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"})
	if n := len(stored.Views()); n != 1 || event == nil || event.GVR.Group != eventsv1.GroupName || event.View() != old.View() {
		t.Errorf("%d views once events are asked for, in %v", n, event)
	}
	if _, err := l.Now().Resource(schema.GroupResource{Resource: "events"}).Endpoint("v9"); err == nil {
		t.Error("events are in a version that there is not")
	}
	if l.Reach(schema.GroupResource{Resource: "bindings"}) != nil || l.Reach(schema.GroupResource{Resource: "nothing"}) != nil {
		t.Error("what is not served is reached")
	}
	l.MakeViews()
	if n := len(stored.Views()); n != 2 {
		t.Errorf("%d views once all are made, want 2", n)
	}
}
