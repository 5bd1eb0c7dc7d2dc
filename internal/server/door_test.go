package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Writes of code in the process, with Go objects, are authorized, admitted and
// stored like a request of the same user.
func TestDoor(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	maps := inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "default"}
	one := request.Named("default", "one")
	writer := s.base.door.As(masters, "writer/v1")
	sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"k": "1"}}
	before := sent.DeepCopy()
	stored, err := writer.Create(ctx, maps, sent)
	if err != nil {
		t.Fatal(err)
	}
	m := stored.(*corev1.ConfigMap)
	if m.UID == "" || m.Namespace != "default" || len(m.ManagedFields) != 1 || m.ManagedFields[0].Manager != "writer" {
		t.Errorf("stored %+v", m)
	}
	if !equality.Semantic.DeepEqual(sent, before) {
		t.Errorf("what was sent has become %+v", sent)
	}

	// Another write comes first: the edit is made on the object stored then.
	edits := 0
	edited, err := inprocess.Edit(ctx, writer.Managing("editor"), maps, one, func(m *corev1.ConfigMap) error {
		if edits++; edits == 1 {
			other := m.DeepCopy()
			other.Data["other"] = "1"
			if _, err := writer.Update(ctx, maps, one, other); err != nil {
				return err
			}
		}
		m.Data["k"] = "2"
		return nil
	})
	if err != nil || edited.Data["k"] != "2" || edited.Data["other"] != "1" || edits != 2 {
		t.Errorf("%d edits: %v, %v", edits, edited, err)
	}
	if !slices.ContainsFunc(edited.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "editor" }) {
		t.Errorf("managed by %v", edited.ManagedFields)
	}
	refusal := errors.New("not today")
	if _, err := inprocess.Edit(ctx, writer, maps, one, func(*corev1.ConfigMap) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("an edit's error comes back as %v", err)
	}
	if _, err := writer.Update(ctx, maps, one, m); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old revision: %v", err)
	}
	if err := writer.Apply(ctx, maps, one, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"applied": "1"}}); !apierrors.IsInvalid(err) {
		t.Errorf("an apply without a field manager: %v", err)
	}
	if err := writer.Managing("applier").Apply(ctx, maps, one, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"k": "3"}}); err != nil {
		t.Error(err)
	}
	if err := writer.Merge(ctx, maps, one, map[string]any{"data": map[string]any{"other": nil}}); err != nil {
		t.Error(err)
	}
	if edited, err = inprocess.Edit(ctx, writer, maps, one, func(*corev1.ConfigMap) error { return nil }); err != nil || len(edited.Data) != 1 || edited.Data["k"] != "3" {
		t.Errorf("%v, %v", edited, err)
	}
	uid := edited.UID + "x"
	if err := writer.Delete(ctx, maps, one, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); !apierrors.IsConflict(err) {
		t.Errorf("options of a deletion count for nothing: %v", err)
	}
	if err := writer.Delete(ctx, maps, one, nil); err != nil {
		t.Error(err)
	}
	if _, err := inprocess.Edit(ctx, writer, maps, one, func(*corev1.ConfigMap) error { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("an edit of nothing: %v", err)
	}
}

// Refusals come back as errors with their status: by authorization, which
// answers in the chain, by admission and by rules.
func TestDoorRefusals(t *testing.T) {
	s := start(t)
	maps := inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "default"}
	nobody := s.base.door.As(&user.DefaultInfo{Name: "nobody"}, "test")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := nobody.Create(t.Context(), maps, m); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights: %v", err)
	}
	writer := s.base.door.As(masters, "test")
	nowhere := maps
	nowhere.Namespace = "nowhere"
	if _, err := writer.Create(t.Context(), nowhere, m); !apierrors.IsNotFound(err) {
		t.Errorf("in no namespace: %v", err)
	}
	if _, err := writer.Create(t.Context(), maps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "NO"}}); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid name: %v", err)
	}
	if _, err := writer.Create(t.Context(), maps, &metav1.Status{}); err == nil {
		t.Error("an object without metadata was stored")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := writer.Create(ctx, maps, m); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := inprocess.NewDoor(t.Context()).As(masters, "test").Create(t.Context(), maps, m); err == nil {
		t.Error("a door that is not open lets through")
	}
}

// One server at a time leads; another takes over when that ends.
func TestElection(t *testing.T) {
	s := start(t)
	led := make(chan string)
	lead := func(name string) (stop func()) {
		e := &controllers.Election{Name: "test", Identity: name, Leases: s.base.builtin("coordination.k8s.io", "leases"), Client: s.base.itself, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Lead(ctx, func(ctx context.Context) {
				select {
				case led <- name:
				case <-ctx.Done():
				}
				<-ctx.Done()
			})
		}()
		return func() { cancel(); <-done }
	}
	stop := lead("first")
	if got := <-led; got != "first" {
		t.Fatalf("%s leads", got)
	}
	defer lead("second")()
	select {
	case got := <-led:
		t.Fatalf("%s leads beside the first", got)
	default:
	}
	stop()
	if got := <-led; got != "second" {
		t.Errorf("%s leads", got)
	}
}
