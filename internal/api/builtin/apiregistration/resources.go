// Package apiregistration is the API group apiregistration.k8s.io/v1: APIServices, which say which server serves a
// group and version.
package apiregistration

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = apiregistrationv1.SchemeGroupVersion

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Now is the server's clock.
	Now func() time.Time
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(apiServices(d))
}

func apiServices(d Deps) *engine.Resource {
	return &engine.Resource{
		Stored: &engine.Stored{GroupVersion: v1, JSON: true},
		Plural: "apiservices", Kind: "APIService",
		Categories: []string{"api-extensions"},
		Prefix:     "apiregistration.k8s.io/apiservices",
		Versions:   []*engine.Version{engine.VersionOf[apiregistrationv1.APIService, apiregistrationv1.APIServiceList](v1, defaultAPIService)},
		Rules: engine.Typed[*apiregistrationv1.APIService]{
			StatusApart: true,
			PrepareCreate: func(_ context.Context, s *apiregistrationv1.APIService) {
				if s.Spec.Service == nil {
					s.Status.Conditions = []apiregistrationv1.APIServiceCondition{Local(d.Now())}
				}
			},
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.WithoutTable(engine.Status(engine.Typed[*apiregistrationv1.APIService]{
			PrepareUpdate: func(_ context.Context, s, old *apiregistrationv1.APIService) {
				s.Labels = old.Labels
				s.Annotations = old.Annotations
				s.Finalizers = old.Finalizers
				s.OwnerReferences = old.OwnerReferences
			},
			ValidateUpdate:       validateStatus,
			NeedsResourceVersion: true,
			Reset:                engine.ResetSpecAndMetadata,
		}))},
		Table: apiServiceTable(),
	}
}

func defaultAPIService(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil {
		rules.DefaultPtr(&s.Spec.Service.Port, 443)
	}
}

// Local returns the Available condition of a group and version that this server serves itself.
func Local(now time.Time) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type:               apiregistrationv1.Available,
		Status:             apiregistrationv1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now),
		Reason:             "Local",
		Message:            "Local APIServices are always available",
	}
}
