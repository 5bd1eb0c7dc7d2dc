package rules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objectCounts are the quota resources that count objects.
var objectCounts = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// amounts are the resources without a domain that are not object counts.
var amounts = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourceRequestsStorage,
}

// IsHugePages reports whether a resource is huge pages.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNative reports whether a resource is defined by Kubernetes: without a domain, or in one of kubernetes.io.
func IsNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsOvercommitAllowed reports whether limits of a resource may exceed its requests.
func IsOvercommitAllowed(name corev1.ResourceName) bool { return IsNative(name) && !IsHugePages(name) }

// IsExtended reports whether a resource is an extended resource.
func IsExtended(name corev1.ResourceName) bool {
	if IsNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// IsQuotaStandard reports whether a resource without a domain is a quota resource.
func IsQuotaStandard(name corev1.ResourceName) bool {
	return IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) ||
		slices.Contains(amounts, name) || slices.Contains(objectCounts, name)
}

func isStandard(name corev1.ResourceName) bool {
	return name == corev1.ResourceStorage || IsQuotaStandard(name)
}

// ResourceName reports an invalid resource name.
func (e Errors) ResourceName(name corev1.ResourceName) {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
		return
	}
	if m := validation.IsQualifiedName(string(name)); len(m) > 0 {
		e.Messages(name, m)
	} else if !strings.Contains(string(name), "/") && !isStandard(name) {
		e.Invalid(name, "must be a standard resource type or fully qualified")
	}
}

// ContainerResourceName reports an invalid resource name for a container.
func (e Errors) ContainerResourceName(name corev1.ResourceName) {
	e.ResourceName(name)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage && !IsHugePages(name) {
			e.Invalid(name, "must be a standard resource for containers")
		}
	case !IsNative(name) && !IsExtended(name):
		e.Invalid(name, "doesn't follow extended resource name standard")
	}
}

// QuotaResourceName reports an invalid resource name for a quota.
func (e Errors) QuotaResourceName(name corev1.ResourceName) {
	e.ResourceName(name)
	if !strings.Contains(string(name), "/") && !IsQuotaStandard(name) {
		e.Invalid(name, "must be a standard resource for quota")
	}
}

// Quantity reports an invalid amount of a resource.
func (e Errors) Quantity(name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		e.Invalid(q.String(), "must be greater than or equal to 0")
	}
	if IsWhole(q) || !slices.Contains(objectCounts, name) && !IsExtended(name) {
		return
	}
	e.Invalid(q.String(), "must be an integer")
}

// IsWhole reports whether an amount is a whole number.
func IsWhole(q resource.Quantity) bool { return q.MilliValue()%1000 == 0 }

// PositiveQuantity reports an amount that is not above zero.
func (e Errors) PositiveQuantity(q resource.Quantity) {
	if q.Sign() <= 0 {
		e.Invalid(q.String(), "must be greater than zero")
	}
}

// SizeOfPages returns the page size of a huge page resource; zero if the name has none.
func SizeOfPages(name corev1.ResourceName) int64 {
	q, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || q.Sign() <= 0 || !IsWhole(q) {
		return 0
	}
	return q.Value()
}

// WholePages reports whether an amount of huge pages is a multiple of the page size.
func WholePages(name corev1.ResourceName, q resource.Quantity) bool {
	size := SizeOfPages(name)
	return size > 0 && q.Value()%size == 0
}

func internalError(e Errors, err error) *field.Error { return field.InternalError(e.Path(), err) }
