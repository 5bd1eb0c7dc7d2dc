package resourcequota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// sum returns a + b.
func sum(a, b corev1.ResourceList) corev1.ResourceList {
	out := make(corev1.ResourceList, len(a)+len(b))
	podspec.AddResources(out, a)
	podspec.AddResources(out, b)
	return out
}

// excess returns a - b where a is larger, for the names in a.
func excess(a, b corev1.ResourceList) corev1.ResourceList {
	out := make(corev1.ResourceList, len(a))
	for name, q := range a {
		more := q.DeepCopy()
		more.Sub(b[name])
		if more.Sign() < 0 {
			more = resource.Quantity{Format: q.Format}
		}
		out[name] = more
	}
	return out
}

// nonzero returns the entries of list that are not zero.
func nonzero(list corev1.ResourceList) corev1.ResourceList {
	out := make(corev1.ResourceList, len(list))
	for name, q := range list {
		if !q.IsZero() {
			out[name] = q
		}
	}
	return out
}

// mask returns the entries of list whose names are in names.
func mask(list, names corev1.ResourceList) corev1.ResourceList {
	out := make(corev1.ResourceList, len(names))
	for name, q := range list {
		if _, ok := names[name]; ok {
			out[name] = q
		}
	}
	return out
}

func negative(list corev1.ResourceList) (names []corev1.ResourceName) {
	for name, q := range list {
		if q.Sign() < 0 {
			names = append(names, name)
		}
	}
	return names
}

func joinNames(names []corev1.ResourceName) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, string(name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func join(list corev1.ResourceList) string {
	parts := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
