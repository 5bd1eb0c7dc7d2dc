package flowcontrol

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// consumer is the field manager that writes the condition, under kube-apiserver's name.
const consumer = "api-priority-and-fairness-config-consumer-v1"

// Dangling maintains the Dangling conditions of all FlowSchemas.
type Dangling struct {
	Schemas, Levels *engine.Endpoint
	// Client makes the writes, as the server itself.
	Client *inprocess.Client
	Clock  clock.Clock
	Log    *slog.Logger
}

// Run follows priority levels and schemas until ctx ends.
func (d *Dangling) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		engine.IndexOf[*flowcontrolv1.PriorityLevelConfiguration](d.Levels).Follow(ctx, func(c store.Change[*flowcontrolv1.PriorityLevelConfiguration]) {
			if c.Added() || c.Gone {
				d.all(ctx)
			}
		}, nil)
	})
	d.schemas().Follow(ctx, func(c store.Change[*flowcontrolv1.FlowSchema]) {
		if c.Now != nil {
			d.look(ctx, c.Now)
		}
	}, nil)
	return nil
}

func (d *Dangling) schemas() *store.Index[*flowcontrolv1.FlowSchema] {
	return engine.IndexOf[*flowcontrolv1.FlowSchema](d.Schemas)
}

// all updates the conditions of all schemas.
func (d *Dangling) all(ctx context.Context) {
	schemas, err := d.schemas().Objects(ctx, "")
	if err != nil {
		return // the view will be told of again
	}
	for _, s := range schemas {
		d.look(ctx, s)
	}
}

// look updates the condition of one schema.
func (d *Dangling) look(ctx context.Context, s *flowcontrolv1.FlowSchema) {
	level := s.Spec.PriorityLevelConfiguration.Name
	_, err := d.Levels.View().Get(ctx, level)
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
	status := inprocess.Target{Resource: d.Schemas.GVR, Name: s.Name, Subresource: "status"}
	err = d.Client.Managing(consumer).Apply(ctx, status, map[string]any{
		"apiVersion": d.Schemas.GVK.GroupVersion().String(), "kind": d.Schemas.GVK.Kind, "metadata": map[string]any{"name": s.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": string(want.Type), "status": string(want.Status), "reason": want.Reason, "message": want.Message,
			"lastTransitionTime": d.Clock.Now().UTC().Format(time.RFC3339),
		}}},
	})
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("could not write the condition of a flow schema", "name", s.Name, "error", err)
	}
}
