// Package aggregator is the aggregator of extension API servers. So far it only sets the condition of APIServices whose
// service does not exist.
package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Availability maintains the Available condition of APIServices whose service is missing.
type Availability struct {
	APIServices, Services *engine.Endpoint
	// Client writes the condition, as the server itself.
	Client *inprocess.Client
	Clock  clock.Clock
	Log    *slog.Logger
}

// Run follows APIServices and services until ctx ends.
func (a *Availability) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	index := engine.IndexOf[*apiregistrationv1.APIService](a.APIServices)
	wg.Go(func() {
		engine.IndexOf[engine.Object](a.Services).Follow(ctx, func(c store.Change[engine.Object]) {
			if !c.Added() && !c.Gone {
				return
			}
			all, err := index.Objects(ctx, "")
			if err != nil {
				return // the view will be told of again
			}
			for _, s := range all {
				a.look(ctx, s)
			}
		}, nil)
	})
	index.Follow(ctx, func(c store.Change[*apiregistrationv1.APIService]) {
		if c.Now != nil {
			a.look(ctx, c.Now)
		}
	}, nil)
	return nil
}

// look sets the condition of one APIService if its service is missing.
func (a *Availability) look(ctx context.Context, s *apiregistrationv1.APIService) {
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
	status := inprocess.Target{Resource: a.APIServices.GVR, Name: s.Name, Subresource: "status"}
	_, err := inprocess.Edit(ctx, a.Client, status, func(s *apiregistrationv1.APIService) error {
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
