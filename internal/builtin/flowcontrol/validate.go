package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validateFlowSchema(_ context.Context, o *flowcontrolv1.FlowSchema) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateFlowSchemaUpdate(_ context.Context, o, old *flowcontrolv1.FlowSchema) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateFlowSchemaStatus(_ context.Context, o, old *flowcontrolv1.FlowSchema) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validatePriorityLevelConfiguration(_ context.Context, o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validatePriorityLevelConfigurationUpdate(_ context.Context, o, old *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validatePriorityLevelConfigurationStatus(_ context.Context, o, old *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
