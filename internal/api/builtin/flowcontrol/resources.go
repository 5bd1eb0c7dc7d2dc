// Package flowcontrol is the API group flowcontrol.apiserver.k8s.io/v1: flow
// schemas and priority levels.
package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = flowcontrolv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return engine.Kinds(flowSchemas(), priorityLevelConfigurations())
}

func flowSchemas() *engine.Resource {
	return &engine.Resource{
		Plural: "flowschemas", Kind: "FlowSchema",
		Versions: []*engine.Version{engine.VersionOf[flowcontrolv1.FlowSchema, flowcontrolv1.FlowSchemaList](v1, defaultFlowSchema)},
		Rules: engine.Typed[*flowcontrolv1.FlowSchema]{
			StatusApart:    true,
			CountsSpec:     true,
			Validate:       validateFlowSchema,
			ValidateUpdate: validateFlowSchemaUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*flowcontrolv1.FlowSchema]{
			PrepareUpdate: func(_ context.Context, s, old *flowcontrolv1.FlowSchema) {
				keepMetadata(&s.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: validateFlowSchemaStatus,
			Reset:          engine.ResetSpecAndMetadata,
		})},
		Table: flowSchemaTable(),
	}
}

func defaultFlowSchema(s *flowcontrolv1.FlowSchema) {
	rules.Default(&s.Spec.MatchingPrecedence, 1000)
}

func priorityLevelConfigurations() *engine.Resource {
	return &engine.Resource{
		Plural: "prioritylevelconfigurations", Kind: "PriorityLevelConfiguration",
		Versions: []*engine.Version{engine.VersionOf[flowcontrolv1.PriorityLevelConfiguration, flowcontrolv1.PriorityLevelConfigurationList](
			v1, defaultPriorityLevel)},
		Rules: engine.Typed[*flowcontrolv1.PriorityLevelConfiguration]{
			StatusApart:    true,
			CountsSpec:     true,
			Validate:       validatePriorityLevelConfiguration,
			ValidateUpdate: validatePriorityLevelConfigurationUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*flowcontrolv1.PriorityLevelConfiguration]{
			PrepareUpdate: func(_ context.Context, l, old *flowcontrolv1.PriorityLevelConfiguration) {
				keepMetadata(&l.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: validatePriorityLevelConfigurationStatus,
			Reset:          engine.ResetSpecAndMetadata,
		})},
		Table: priorityLevelConfigurationTable(),
	}
}

func defaultPriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if c := l.Spec.Limited; c != nil {
		rules.DefaultPtr(&c.NominalConcurrencyShares, 30)
		rules.DefaultPtr(&c.LendablePercent, 0)
		if q := c.LimitResponse.Queuing; q != nil {
			rules.Default(&q.HandSize, 8)
			rules.Default(&q.Queues, 64)
			rules.Default(&q.QueueLengthLimit, 50)
		}
	}
	if c := l.Spec.Exempt; c != nil {
		rules.DefaultPtr(&c.NominalConcurrencyShares, 0)
		rules.DefaultPtr(&c.LendablePercent, 0)
	}
}

// keepMetadata copies all metadata of old except managedFields.
func keepMetadata(m, old *metav1.ObjectMeta) {
	managed := m.ManagedFields
	*m = *old
	m.ManagedFields = managed
}
