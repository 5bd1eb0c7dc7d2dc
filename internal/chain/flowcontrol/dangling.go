package flowcontrol

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
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

	pace pace
}

// Several servers may not agree on a condition, for one does not know a level yet or says it in other words. So that they do not write
// against each other without end, none writes a schema's condition more often than this, as kube-apiserver.
const (
	writesPerMinute = 6
	againAfter      = 45 * time.Second
)

// pace bounds how often each schema is written.
type pace struct {
	mu    sync.Mutex
	wrote map[string][]time.Time // within the last minute; guarded by mu
}

// allow notes a write of a schema, or reports false if there were too many within a minute.
func (p *pace) allow(name string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	recent := slices.DeleteFunc(p.wrote[name], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(recent) >= writesPerMinute {
		p.wrote[name] = recent
		return false
	}
	if p.wrote == nil {
		p.wrote = map[string][]time.Time{}
	}
	p.wrote[name] = append(recent, now)
	return true
}

// forget is called for a schema that is gone.
func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wrote, name)
}

// held reports whether a schema may not be written now.
func (p *pace) held(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wrote := range p.wrote {
		if n := len(wrote); n >= writesPerMinute && now.Sub(wrote[n-writesPerMinute]) < time.Minute+againAfter {
			return true
		}
	}
	return false
}

// Run follows priority levels and schemas until ctx ends.
func (d *Dangling) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx) // so that a panic below does not wait for those who follow
	defer stop()
	wg.Add(2)
	engine.IndexOf[*flowcontrolv1.PriorityLevelConfiguration](d.Levels).Join(ctx, wg.Done, func(c store.Change[*flowcontrolv1.PriorityLevelConfiguration]) {
		if c.Added() || c.Gone {
			d.all(ctx)
		}
	}, nil)
	d.schemas().Join(ctx, wg.Done, func(c store.Change[*flowcontrolv1.FlowSchema]) {
		if c.Now != nil {
			d.look(ctx, c.Now)
		} else if c.Gone {
			d.pace.forget(c.Key)
		}
	}, nil)
	d.again(ctx)
	return nil
}

// again looks at all schemas now and then while some could not be written.
func (d *Dangling) again(ctx context.Context) {
	for {
		select {
		case <-d.Clock.After(againAfter):
			if d.pace.held(d.Clock.Now()) {
				d.all(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
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

// look updates the condition of one schema. It leaves a schema alone that has changed since s was read: two goroutines look at schemas,
// and a condition that both write would say that it changed twice.
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
	if now, err := d.Schemas.GetObject(ctx, "", s.Name); err != nil || now.GetResourceVersion() != s.ResourceVersion {
		return // it is told of again
	}
	if !d.pace.allow(s.Name, d.Clock.Now()) {
		return // see again
	}
	status := inprocess.Target{Resource: d.Schemas.GVR, Subresource: "status"}
	err = d.Client.Managing(consumer).Apply(ctx, status, request.Unchanged(s), map[string]any{
		"apiVersion": d.Schemas.GVK.GroupVersion().String(), "kind": d.Schemas.GVK.Kind, "metadata": map[string]any{"name": s.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": string(want.Type), "status": string(want.Status), "reason": want.Reason, "message": want.Message,
			"lastTransitionTime": d.Clock.Now().UTC().Format(time.RFC3339),
		}}},
	})
	// A schema that is gone, or has changed by now, is told of again.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		d.Log.Warn("could not write the condition of a flow schema", "name", s.Name, "error", err)
	}
}
