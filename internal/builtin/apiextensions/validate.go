package apiextensions

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validate(_ context.Context, o *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateUpdate(_ context.Context, o, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateStatus(_ context.Context, o, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
