package resourcequota

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/defaultclass"
)

// meter measures the usage of objects of one resource.
type meter struct {
	// handles says that a write can change usage.
	handles func(a *admission.Attributes) bool
	// measures says that the meter measures a resource that quotas limit.
	measures func(name corev1.ResourceName) bool
	// usage returns the usage of an object.
	usage func(ctx context.Context, obj runtime.Object) (corev1.ResourceList, error)
	// each is the usage of every object, if it is the same for all; otherwise
	// nil.
	each corev1.ResourceList
	// constraints (optional) checks that an object states the required
	// resources.
	constraints func(required []corev1.ResourceName, obj runtime.Object) error
	// inScope (optional) says that an object is in a scope. Nil: no object is
	// in any.
	inScope func(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error)
}

// meter returns the meter of a resource. By default it counts objects.
func (p *plugin) meter(gr schema.GroupResource) *meter {
	switch gr {
	case admission.Pods:
		return p.pods()
	case admission.Services:
		return services
	case admission.PersistentVolumeClaims:
		return claims
	case admission.ResourceClaims:
		return p.resourceClaims()
	}
	return counted(gr)
}

// countName is how quotas name the number of objects of a resource.
func countName(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + gr.String())
}

// oldCounts are resources that quotas also count by their plain name.
var oldCounts = sets.New("configmaps", "resourcequotas", "replicationcontrollers", "secrets")

// counted measures how many objects there are.
func counted(gr schema.GroupResource) *meter {
	usage := corev1.ResourceList{countName(gr): one()}
	if gr.Group == "" && oldCounts.Has(gr.Resource) {
		usage[corev1.ResourceName(gr.Resource)] = one()
	}
	return &meter{
		handles: func(a *admission.Attributes) bool { return a.Subresource == "" && a.Operation == admission.Create },
		measures: func(name corev1.ResourceName) bool {
			_, ok := usage[name]
			return ok
		},
		usage: func(context.Context, runtime.Object) (corev1.ResourceList, error) { return usage, nil },
		each:  usage,
	}
}

// itself says that a write is to the object itself, so it may change its type.
func itself(a *admission.Attributes) bool { return a.Subresource == "" }

var services = &meter{
	handles: itself,
	measures: func(name corev1.ResourceName) bool {
		switch name {
		case countName(admission.Services), corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
			return true
		}
		return false
	},
	usage: func(_ context.Context, obj runtime.Object) (corev1.ResourceList, error) {
		svc, ok := obj.(*corev1.Service)
		if !ok {
			return nil, fmt.Errorf("%T is not a service", obj)
		}
		var nodePorts, balancers int64
		switch svc.Spec.Type {
		case corev1.ServiceTypeNodePort:
			nodePorts = int64(len(svc.Spec.Ports))
		case corev1.ServiceTypeLoadBalancer:
			balancers = 1
			allocates := svc.Spec.AllocateLoadBalancerNodePorts
			for _, port := range svc.Spec.Ports {
				// Ports count before they are allocated.
				if allocates == nil || *allocates || port.NodePort != 0 {
					nodePorts++
				}
			}
		}
		return corev1.ResourceList{
			countName(admission.Services):        one(),
			corev1.ResourceServices:              one(),
			corev1.ResourceServicesNodePorts:     count(nodePorts),
			corev1.ResourceServicesLoadBalancers: count(balancers),
		}, nil
	},
}

// classSuffix is between a storage class and the limited resource.
const classSuffix = ".storageclass.storage.k8s.io/"

var claims = &meter{
	// An update of the status changes the allocated size and the current class.
	handles: func(a *admission.Attributes) bool {
		return a.Subresource == "" || a.Subresource == "status" && a.Operation == admission.Update
	},
	measures: func(name corev1.ResourceName) bool {
		switch name {
		case countName(admission.PersistentVolumeClaims), corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage:
			return true
		}
		return strings.HasSuffix(string(name), classSuffix+string(corev1.ResourcePersistentVolumeClaims)) ||
			strings.HasSuffix(string(name), classSuffix+string(corev1.ResourceRequestsStorage))
	},
	usage: func(_ context.Context, obj runtime.Object) (corev1.ResourceList, error) {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			return nil, fmt.Errorf("%T is not a claim", obj)
		}
		list := corev1.ResourceList{
			countName(admission.PersistentVolumeClaims): one(),
			corev1.ResourcePersistentVolumeClaims:       one(),
		}
		if size, ok := storageOf(claim); ok {
			list[corev1.ResourceRequestsStorage] = size
		}
		if class := defaultclass.Of(claim); class != "" {
			for _, name := range [...]corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
				if q, ok := list[name]; ok {
					list[corev1.ResourceName(class+classSuffix)+name] = q
				}
			}
		}
		return list, nil
	},
	inScope: func(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error) {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
			return false, nil
		}
		names := attributesClasses(claim)
		if s.Operator == corev1.ScopeSelectorOpExists || len(names) == 0 {
			return selects(s, names.UnsortedList()...)
		}
		for name := range names {
			if in, err := selects(s, name); in || err != nil {
				return in, err
			}
		}
		return false, nil
	},
}

// storageOf returns the larger of the requested and the allocated size of a
// claim, in whole bytes.
func storageOf(claim *corev1.PersistentVolumeClaim) (resource.Quantity, bool) {
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return size, false
	}
	if got, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && got.Cmp(size) > 0 {
		size = got
	}
	size = size.DeepCopy()
	size.RoundUp(0)
	return size, true
}

// attributesClasses returns the current, previous and desired classes of a
// claim.
func attributesClasses(claim *corev1.PersistentVolumeClaim) sets.Set[string] {
	names := sets.New[string]()
	for _, name := range [...]*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if name != nil {
			names.Insert(*name)
		}
	}
	if s := claim.Status.ModifyVolumeStatus; s != nil {
		names.Insert(s.TargetVolumeAttributesClassName)
	}
	return names.Delete("")
}

var operators = map[corev1.ScopeSelectorOperator]selection.Operator{
	corev1.ScopeSelectorOpIn:           selection.In,
	corev1.ScopeSelectorOpNotIn:        selection.NotIn,
	corev1.ScopeSelectorOpExists:       selection.Exists,
	corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// selects says that a scope selects a name; "" or no argument means no name.
func selects(s corev1.ScopedResourceSelectorRequirement, name ...string) (bool, error) {
	has := len(name) > 0 && name[0] != ""
	if s.Operator == corev1.ScopeSelectorOpExists {
		return has, nil
	}
	r, err := labels.NewRequirement(string(s.ScopeName), operators[s.Operator], s.Values)
	if err != nil {
		return false, err
	}
	set := labels.Set{}
	if has {
		set[string(s.ScopeName)] = name[0]
	}
	return r.Matches(set), nil
}
