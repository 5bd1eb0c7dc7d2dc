package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/modes"
	"github.com/kanzen-io/kanzen/internal/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/metrics"
	"github.com/kanzen-io/kanzen/internal/recorder"
	"github.com/kanzen-io/kanzen/internal/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file wires the flight recorder.

// flight is the flight recorder of this server; it is nil without --flight-recorder-memory.
type flight struct{ *recorder.Recorder }

func (b *base) flightRecorder(ctx context.Context) (flight, error) {
	if b.cfg.FlightRecorderMemory == 0 {
		return flight{}, nil
	}
	c := recorder.Config{Memory: b.cfg.FlightRecorderMemory, Slow: b.cfg.FlightRecorderSlow, Sample: b.cfg.FlightRecorderSample, Clock: b.ground.Clock, Log: b.log}
	if b.cfg.FlightRecorderDir != "" {
		disk, err := recorder.OpenDisk(recorder.DiskConfig{Dir: b.cfg.FlightRecorderDir, Size: b.cfg.FlightRecorderDirSize, Age: b.cfg.FlightRecorderDirAge, Log: b.log})
		if err != nil {
			return flight{}, fmt.Errorf("--flight-recorder-dir: %w", err)
		}
		c.Disk = disk
	}
	r := recorder.New(c)
	if err := r.Load(ctx); err != nil {
		b.log.Warn("what the flight recorder kept before could not be read", "dir", b.cfg.FlightRecorderDir, "error", err)
	}
	b.metrics.Register(r)
	return flight{r}, nil
}

// filter returns the chain's filter, nil without a recorder.
func (f flight) filter() chain.Filter {
	if f.Recorder == nil {
		return nil
	}
	return f.Recorder.Filter
}

// wrote returns what the engine tells of writes.
func (f flight) wrote() func(context.Context, engine.Written) {
	if f.Recorder == nil {
		return nil
	}
	return f.Recorder.Wrote
}

// deprecated tells the metrics, and the recorder if there is one, of deprecated requests.
func (f flight) deprecated(m *metrics.Metrics) func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
	if f.Recorder == nil {
		return m.Deprecated
	}
	return func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string) {
		m.Deprecated(ctx, gvr, subresource, removed)
		f.Deprecated(ctx, gvr)
	}
}

// recorderResources returns the resources by which the recorder is read.
func (b *base) recorderResources(f flight, a *modes.Set, p recorder.Parts) []*engine.Resource {
	if f.Recorder == nil {
		return nil
	}
	may := authz.Require(a)
	return f.Resources(recorder.Deps{
		MayGet: func(ctx context.Context, o v1alpha1.ObjectReference) error {
			return may(ctx, &request.Info{IsResource: true, Verb: "get", Group: o.Group, Version: "*", Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
		},
		Explain: func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (v1alpha1.AccessExplanationStatus, error) {
			return explain(ctx, a, authz.ForReview(spec))
		},
		Parts: p,
		Asked: b.asked,
	})
}

// asked says whether a webhook or policy still exists. What cannot be read may.
func (b *base) asked(ctx context.Context, kind, name, phase string) bool {
	which := "validating"
	if phase == "admit" {
		which = "mutating"
	}
	resource := which + "admissionpolicies"
	if kind == request.StepWebhook {
		resource = which + "webhookconfigurations"
	}
	name, _, _ = strings.Cut(name, "/") // behind it stands the webhook, or the binding of a mutating policy
	v, err := b.objects.View(schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource})
	if err != nil {
		return true
	}
	i, err := v.Get(ctx, name)
	return i != nil || err != nil && !errors.Is(err, store.ErrNotFound)
}

// explain asks the authorizers for their decision, and RBAC for its reasons.
func explain(ctx context.Context, a *modes.Set, at *authz.Attributes) (v1alpha1.AccessExplanationStatus, error) {
	decision, reason, err := a.Authorize(ctx, at)
	if err != nil && decision != authz.Allow {
		reason = fmt.Sprint(reason, " ", err)
	}
	s := v1alpha1.AccessExplanationStatus{Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason}
	if !a.Uses("RBAC") {
		return s, nil
	}
	e := a.RBAC.Index.Explain(at)
	s.Bindings, s.Would, s.Roles = considered(e.Considered), considered(e.Would), e.Roles
	return s, nil
}

func considered(all []rbac.Considered) []v1alpha1.ConsideredBinding {
	out := make([]v1alpha1.ConsideredBinding, 0, len(all))
	for n := range all {
		c := &all[n]
		kind := "ClusterRoleBinding"
		if c.Namespace != "" {
			kind = "RoleBinding"
		}
		out = append(out, v1alpha1.ConsideredBinding{Kind: kind, Namespace: c.Namespace, Name: c.Name, Role: c.Role, Subjects: c.Subjects,
			Allows: c.Allows, Rule: c.Rule, Missing: c.Missing})
	}
	return out
}
