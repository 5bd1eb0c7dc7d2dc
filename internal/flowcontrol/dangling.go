package flowcontrol

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// consumer is the field manager that writes the condition, under kube-apiserver's name.
const consumer = "api-priority-and-fairness-config-consumer-v1"

// Dangling maintains the Dangling conditions of all FlowSchemas.
type Dangling struct {
	Schemas, Levels *engine.Endpoint
	Clock           clock.Clock
	Log             *slog.Logger
}

// Run watches priority levels and schemas until ctx ends. It uses one goroutine for each kind, and one schema is
// checked at a time.
func (d *Dangling) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- d.Levels.View().Follow(ctx, levels{d, ctx}) }()
	err := d.Schemas.View().Follow(ctx, schemas{d, ctx})
	if lerr := <-done; err == nil {
		err = lerr
	}
	return err
}

// look updates the condition of one schema.
func (d *Dangling) look(ctx context.Context, i *store.Item) {
	obj, err := d.Schemas.Decode(i)
	if err != nil {
		return
	}
	s := obj.(*flowcontrolv1.FlowSchema)
	level := s.Spec.PriorityLevelConfiguration.Name
	_, err = d.Levels.View().Get(ctx, level)
	want := flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level)}
	if err != nil {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == want.Type && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message {
			return
		}
	}
	err = d.Schemas.ApplyStatus(ctx, "", s.Name, consumer, map[string]any{"conditions": []any{map[string]any{
		"type": string(want.Type), "status": string(want.Status), "reason": want.Reason, "message": want.Message,
		"lastTransitionTime": d.Clock.Now().UTC().Format(time.RFC3339),
	}}})
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("could not write the condition of a flow schema", "name", s.Name, "error", err)
	}
}

// schemas checks each schema that is added or changed.
type schemas struct {
	d   *Dangling
	ctx context.Context
}

func (s schemas) Reset(items []*store.Item) {
	for _, i := range items {
		s.d.look(s.ctx, i)
	}
}

func (s schemas) Change(e *store.Event) {
	if e.Item != nil {
		s.d.look(s.ctx, e.Item)
	}
}

func (s schemas) Caught(int64) {}

// levels checks all schemas when a priority level is added or removed.
type levels struct {
	d   *Dangling
	ctx context.Context
}

func (l levels) Reset([]*store.Item) { l.all() }

func (l levels) Change(e *store.Event) {
	if e.Item == nil || e.Prev == nil {
		l.all()
	}
}

func (l levels) Caught(int64) {}

func (l levels) all() {
	snap, err := l.d.Schemas.View().Snapshot(l.ctx)
	if err != nil {
		return
	}
	_ = snap.Ascend(l.ctx, store.Range{}, func(i *store.Item) bool { // only the end of ctx is an error
		l.d.look(l.ctx, i)
		return true
	})
}
