// Package resource is the API group resource.k8s.io, dynamic resource allocation: device classes, claims and their
// templates, slices, in which drivers publish devices, and rules by which administrators taint devices.
package resource

import (
	"context"
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

var v1 = resourcev1.SchemeGroupVersion

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
	// Now is the server's clock.
	Now func() time.Time
	// NamespaceLabels returns the labels of a namespace; a label allows its claims administrative access to devices.
	// Nil: no namespace has it.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// MayBind returns an error if the context's user may not allocate and reserve claims: the request's verb on
	// resourceclaims/binding of all namespaces. Nil: no check.
	MayBind func(ctx context.Context) error
	// MayReport returns an error if the context's user may not write a driver's status of devices allocated for a node
	// (empty: for several): the request's verb, with the prefix arbitrary-node: or, for a service account on that node,
	// associated-node:, on resourceclaims/driver with the driver's name. Nil: no check.
	MayReport func(ctx context.Context, driver, node string) error
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	v := &validator{Deps: d, cel: newExpressions(d.Gates)}
	return engine.Kinds(
		deviceClasses(v),
		deviceTaintRules(d),
		resourceClaims(v),
		resourceClaimTemplates(v),
		resourceSlices(v),
		poolStatusRequests(v),
	)
}

func deviceClasses(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "deviceclasses", Kind: "DeviceClass",
		ReturnDeleted: true,
		Versions: engine.Renamed(engine.VersionOf[resourcev1.DeviceClass, resourcev1.DeviceClassList](v1, nil),
			engine.VersionOf[resourcev1beta2.DeviceClass, resourcev1beta2.DeviceClassList](resourcev1beta2.SchemeGroupVersion, nil),
			engine.VersionOf[resourcev1beta1.DeviceClass, resourcev1beta1.DeviceClassList](v1beta1, nil),
		),
		Rules: engine.Typed[*resourcev1.DeviceClass]{
			CountsSpec:     true,
			Validate:       v.validateDeviceClass,
			ValidateUpdate: v.validateDeviceClassUpdate,
		}.Rules(),
		Table: deviceClassTable(),
	}
}

func resourceClaims(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "resourceclaims", Kind: "ResourceClaim",
		ReturnDeleted: true,
		Namespaced:    true,
		Versions: append(engine.Renamed(engine.VersionOf[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](v1, v.defaultClaim),
			engine.VersionOf[resourcev1beta2.ResourceClaim, resourcev1beta2.ResourceClaimList](resourcev1beta2.SchemeGroupVersion, nil),
		), claimV1beta1()),
		Rules: engine.Typed[*resourcev1.ResourceClaim]{
			StatusApart:    true,
			Validate:       v.validateResourceClaim,
			ValidateUpdate: v.validateResourceClaimUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.WithoutTable(engine.LoneStatus(engine.Typed[*resourcev1.ResourceClaim]{
			PrepareUpdate: func(_ context.Context, c, old *resourcev1.ResourceClaim) {
				dropDeallocated(c, old)
			},
			ValidateUpdate: v.validateResourceClaimStatus,
		}))},
		Table: resourceClaimTable(),
	}
}

func resourceClaimTemplates(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "resourceclaimtemplates", Kind: "ResourceClaimTemplate",
		ReturnDeleted: true,
		Namespaced:    true,
		Versions: append(engine.Renamed(engine.VersionOf[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplateList](
			v1, func(t *resourcev1.ResourceClaimTemplate) { v.defaultClaimSpec(&t.Spec.Spec) }),
			engine.VersionOf[resourcev1beta2.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplateList](resourcev1beta2.SchemeGroupVersion, nil),
		), templateV1beta1()),
		Rules: engine.Typed[*resourcev1.ResourceClaimTemplate]{
			Validate:       v.validateResourceClaimTemplate,
			ValidateUpdate: v.validateResourceClaimTemplateUpdate,
		}.Rules(),
		Table: resourceClaimTemplateTable(),
	}
}

func resourceSlices(v *validator) *engine.Resource {
	return &engine.Resource{
		Plural: "resourceslices", Kind: "ResourceSlice",
		ReturnDeleted: true,
		Versions: append(engine.Renamed(engine.VersionOf[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](
			v1, v.defaultSlice),
			engine.VersionOf[resourcev1beta2.ResourceSlice, resourcev1beta2.ResourceSliceList](resourcev1beta2.SchemeGroupVersion, nil),
		), sliceV1beta1(v.Deps)),
		Rules: engine.Typed[*resourcev1.ResourceSlice]{
			CountsSpec:     true,
			Validate:       v.validateResourceSlice,
			ValidateUpdate: v.validateResourceSliceUpdate,
			Warn: func(_ context.Context, s, _ *resourcev1.ResourceSlice) []string {
				if s.Spec.Driver != strings.ToLower(s.Spec.Driver) {
					return []string{"spec.driver: driver names should be lower case"}
				}
				return nil
			},
		}.Rules(),
		UnknownField: func(label string) error {
			return fmt.Errorf("field label not supported for %s: %s", resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"), label)
		},
		Fields: engine.Fields(func(s *resourcev1.ResourceSlice) fields.Set {
			node := ""
			if s.Spec.NodeName != nil {
				node = *s.Spec.NodeName
			}
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: node,
				resourcev1.ResourceSliceSelectorDriver:   s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		}),
		Trigger: resourcev1.ResourceSliceSelectorNodeName,
		Table:   resourceSliceTable(),
	}
}
