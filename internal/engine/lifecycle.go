package engine

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/base/version"
)

// Deprecation is what clients of a deprecated version are told.
type Deprecation struct {
	// Warning is sent with every answer.
	Warning string
	// Removed is the release that does not serve the version any more: "1.37". Empty: not known.
	Removed string
}

// deprecationOf returns the deprecation of a version of a built-in kind, in kube-apiserver's words; nil if it is not deprecated yet.
// The Go types of k8s.io/api say since which release it is.
func deprecationOf(gv schema.GroupVersion, obj any) *Deprecation {
	d, ok := obj.(interface {
		APILifecycleDeprecated() (major, minor int)
	})
	if !ok {
		return nil
	}
	major, minor := d.APILifecycleDeprecated()
	if served := utilversion.MustParseGeneric(version.Kubernetes); major == 0 || served.LessThan(utilversion.MajorMinor(uint(major), uint(minor))) {
		return nil
	}
	out := &Deprecation{Warning: fmt.Sprintf("%s %s is deprecated in v%d.%d+", gv, reflect.TypeOf(obj).Elem().Name(), major, minor)}
	if r, ok := obj.(interface {
		APILifecycleRemoved() (major, minor int)
	}); ok {
		if major, minor := r.APILifecycleRemoved(); major != 0 {
			out.Removed = fmt.Sprintf("%d.%d", major, minor)
			out.Warning += ", unavailable in v" + out.Removed + "+"
		}
	}
	if r, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		if by := r.APILifecycleReplacement(); !by.Empty() {
			out.Warning += fmt.Sprintf("; use %s %s", by.GroupVersion(), by.Kind)
		}
	}
	return out
}
