package engine

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/version"
)

// deprecationOf returns the warning for a version of a built-in kind, in kube-apiserver's words; "" if it is not deprecated yet. The
// Go types of k8s.io/api say since which release it is.
func deprecationOf(gv schema.GroupVersion, obj any) string {
	d, ok := obj.(interface {
		APILifecycleDeprecated() (major, minor int)
	})
	if !ok {
		return ""
	}
	major, minor := d.APILifecycleDeprecated()
	if served := utilversion.MustParseGeneric(version.Kubernetes); major == 0 || served.LessThan(utilversion.MajorMinor(uint(major), uint(minor))) {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v%d.%d+", gv, reflect.TypeOf(obj).Elem().Name(), major, minor)
	if r, ok := obj.(interface {
		APILifecycleRemoved() (major, minor int)
	}); ok {
		if major, minor := r.APILifecycleRemoved(); major != 0 {
			text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	if r, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		if by := r.APILifecycleReplacement(); !by.Empty() {
			text += fmt.Sprintf("; use %s %s", by.GroupVersion(), by.Kind)
		}
	}
	return text
}
