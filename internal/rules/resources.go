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

// amounts are the resources without a domain that are measured.
var amounts = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourceRequestsStorage,
}

// IsHugePages says whether a resource is memory in large pages.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNative says whether a resource is Kubernetes' own: without a domain, or in
// one of kubernetes.io.
func IsNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsOvercommitAllowed says whether more of a resource may be promised than there is.
func IsOvercommitAllowed(name corev1.ResourceName) bool { return IsNative(name) && !IsHugePages(name) }

// IsExtended says whether a resource is one that somebody else defined.
func IsExtended(name corev1.ResourceName) bool {
	if IsNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// IsQuotaStandard says whether quotas know a resource without a domain.
func IsQuotaStandard(name corev1.ResourceName) bool {
	return IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) ||
		slices.Contains(amounts, name) || slices.Contains(objectCounts, name)
}

func isStandard(name corev1.ResourceName) bool {
	return name == corev1.ResourceStorage || IsQuotaStandard(name)
}

// ResourceName reports a value that cannot name a resource.
func (e Errors) ResourceName(name corev1.ResourceName) {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
		return
	}
	if m := validation.IsQualifiedName(string(name)); len(m) > 0 {
		e.Messages(name, m)
	} else if !strings.Contains(string(name), "/") && !isStandard(name) {
		e.Invalid(name, "must be a standard resource or have a domain")
	}
}

// ContainerResourceName reports a value that cannot name a resource of a container.
func (e Errors) ContainerResourceName(name corev1.ResourceName) {
	e.ResourceName(name)
	switch {
	case !strings.Contains(string(name), "/"):
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage && !IsHugePages(name) {
			e.Invalid(name, "must be a standard resource of containers")
		}
	case !IsNative(name) && !IsExtended(name):
		e.Invalid(name, "must be a well-formed extended resource")
	}
}

// QuotaResourceName reports a value that cannot name a resource under quota.
func (e Errors) QuotaResourceName(name corev1.ResourceName) {
	e.ResourceName(name)
	if !strings.Contains(string(name), "/") && !IsQuotaStandard(name) {
		e.Invalid(name, "must be a standard resource of quotas")
	}
}

// Quantity reports an amount of a resource that cannot be.
func (e Errors) Quantity(name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		e.Invalid(q.String(), "must be greater than or equal to 0")
	}
	if IsWhole(q) || !slices.Contains(objectCounts, name) && !IsExtended(name) {
		return
	}
	e.Invalid(q.String(), "must be an integer")
}

// IsWhole says whether an amount has no fraction.
func IsWhole(q resource.Quantity) bool { return q.MilliValue()%1000 == 0 }

// PositiveQuantity reports an amount that is not above zero.
func (e Errors) PositiveQuantity(q resource.Quantity) {
	if q.Sign() <= 0 {
		e.Invalid(q.String(), "must be greater than zero")
	}
}

// SizeOfPages returns the page size that a huge page resource names; zero
// where it names none.
func SizeOfPages(name corev1.ResourceName) int64 {
	q, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || q.Sign() <= 0 || !IsWhole(q) {
		return 0
	}
	return q.Value()
}

// WholePages says whether an amount of huge pages is a number of pages.
func WholePages(name corev1.ResourceName, q resource.Quantity) bool {
	size := SizeOfPages(name)
	return size > 0 && q.Value()%size == 0
}

func internalError(e Errors, err error) *field.Error { return field.InternalError(e.Path, err) }
