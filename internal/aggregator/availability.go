// Package aggregator is the aggregator of extension API servers. So far it only sets the condition of APIServices whose
// service does not exist.
package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Availability maintains the Available condition of APIServices whose service is missing.
type Availability struct {
	APIServices, Services *engine.Endpoint
	Clock                 clock.Clock
	Log                   *slog.Logger
}

// manager is the field manager of the condition.
const manager = "kube-apiserver"

// Run follows APIServices and services until ctx ends.
func (a *Availability) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		done <- a.Services.View().Follow(ctx, follower{reset: func([]*store.Item) {}, change: func(e *store.Event) {
			if e.Item == nil || e.Prev == nil {
				a.all(ctx)
			}
		}})
	}()
	err := a.APIServices.View().Follow(ctx, follower{
		reset: func(items []*store.Item) {
			for _, i := range items {
				a.look(ctx, i)
			}
		},
		change: func(e *store.Event) {
			if e.Item != nil {
				a.look(ctx, e.Item)
			}
		},
	})
	return errors.Join(err, <-done)
}

// follower adapts two funcs to store.Follower.
type follower struct {
	reset  func(items []*store.Item)
	change func(e *store.Event)
}

func (f follower) Reset(items []*store.Item) { f.reset(items) }
func (f follower) Change(e *store.Event)     { f.change(e) }
func (f follower) Caught(int64)              {}

func (a *Availability) all(ctx context.Context) {
	snap, err := a.APIServices.View().Snapshot(ctx)
	if err != nil {
		return
	}
	_ = snap.Ascend(ctx, store.Range{}, func(i *store.Item) bool { // only the end of ctx is an error
		a.look(ctx, i)
		return true
	})
}

// look sets the condition of one APIService if its service is missing.
func (a *Availability) look(ctx context.Context, i *store.Item) {
	obj, err := a.APIServices.Decode(i)
	if err != nil {
		return
	}
	s := obj.(*apiregistrationv1.APIService)
	if s.Spec.Service == nil {
		return
	}
	if _, err := a.Services.View().Get(ctx, s.Spec.Service.Namespace+"/"+s.Spec.Service.Name); !errors.Is(err, store.ErrNotFound) {
		return
	}
	want := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: "ServiceNotFound",
		Message:            fmt.Sprintf("service/%s in %q is not present", s.Spec.Service.Name, s.Spec.Service.Namespace),
		LastTransitionTime: metav1.NewTime(a.Clock.Now()),
	}
	for _, c := range s.Status.Conditions {
		if c.Type == want.Type && c.Status == want.Status && c.Reason == want.Reason {
			return
		}
	}
	_, err = a.APIServices.Change(ctx, "", s.Name, "status", manager, func(o engine.Object) error {
		s := o.(*apiregistrationv1.APIService)
		for k := range s.Status.Conditions {
			if s.Status.Conditions[k].Type == want.Type {
				s.Status.Conditions[k] = want
				return nil
			}
		}
		s.Status.Conditions = append(s.Status.Conditions, want)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		a.Log.Warn("could not write the condition of an APIService", "name", s.Name, "error", err)
	}
}
