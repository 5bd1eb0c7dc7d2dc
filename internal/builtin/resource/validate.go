package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/builtin/rules"
)

func validateDeviceClass(_ context.Context, o *resourcev1.DeviceClass) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateDeviceClassUpdate(_ context.Context, o, old *resourcev1.DeviceClass) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateResourceClaim(_ context.Context, o *resourcev1.ResourceClaim) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, true, rules.Subdomain)
}

func validateResourceClaimUpdate(_ context.Context, o, old *resourcev1.ResourceClaim) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateResourceClaimStatus(_ context.Context, o, old *resourcev1.ResourceClaim) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func (d Deps) validateResourceClaimTemplate(_ context.Context, o *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, true, rules.Subdomain)
}

func validateResourceClaimTemplateUpdate(_ context.Context, o, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}

func validateResourceSlice(_ context.Context, o *resourcev1.ResourceSlice) field.ErrorList {
	return rules.ObjectMeta(&o.ObjectMeta, false, rules.Subdomain)
}

func validateResourceSliceUpdate(_ context.Context, o, old *resourcev1.ResourceSlice) field.ErrorList {
	return rules.ObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
}
