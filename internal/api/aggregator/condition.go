package aggregator

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// written are the times of the last writes of conditions, by APIService, so that a message that differs at each check is
// not written at each.
type written map[string]time.Time

// prune forgets APIServices that have left.
func (w written) prune(services []*service) {
	if len(w) > len(services) {
		maps.DeleteFunc(w, func(name string, _ time.Time) bool {
			return !slices.ContainsFunc(services, func(v *service) bool { return v.name == name })
		})
	}
}

// write sets the condition of a backend's APIService, if it differs from what is stored.
func (b *backend) write(ctx context.Context, v *service, c apiregistrationv1.APIServiceCondition) error {
	now, old := b.server.Clock.Now(), v.available
	if old.Status == c.Status && old.Reason == c.Reason && (old.Message == c.Message || now.Sub(b.written[v.name]) < probeEvery) || !b.current(v) {
		return nil
	}
	if b.written == nil {
		b.written = written{}
	}
	b.written[v.name] = now
	if old.Status != c.Status {
		b.server.Log.Info("the availability of an APIService changed", "name", v.name, "status", c.Status, "reason", c.Reason, "message", c.Message)
	}
	return b.server.setCondition(ctx, v, c)
}

// setCondition writes the Available condition of an APIService.
func (s *Server) setCondition(ctx context.Context, v *service, c apiregistrationv1.APIServiceCondition) error {
	became := false
	_, err := inprocess.Edit(ctx, s.Client, s.target("status"), request.Same(v.meta()), func(a *apiregistrationv1.APIService) error {
		became = false
		old := condition(a)
		c.LastTransitionTime = metav1.NewTime(s.Clock.Now())
		became = c.Status != apiregistrationv1.ConditionTrue && old != nil && old.Status == apiregistrationv1.ConditionTrue
		if old == nil {
			a.Status.Conditions = append(a.Status.Conditions, c)
			return nil
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return nil
	})
	if err == nil && became {
		s.Metrics.unavailable.WithLabelValues(v.name, c.Reason).Inc()
	}
	return ignoreReplaced(err)
}
