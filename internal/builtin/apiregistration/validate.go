package apiregistration

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validate(_ context.Context, o *apiregistrationv1.APIService) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateUpdate(_ context.Context, o, old *apiregistrationv1.APIService) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateStatus(_ context.Context, o, old *apiregistrationv1.APIService) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
