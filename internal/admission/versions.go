package admission

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Version is one of the ways to name what a write is about.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// Versions is the versions in which a resource is served. The objects under
// admission are of its storage version, whatever version the client wrote.
type Versions interface {
	// All are the versions of the resource or of one of its subresources.
	All(subresource string) []Version
	// Convert returns an object of the resource, of any version, in another.
	// It does not change obj, and returns it if it is of that version already.
	Convert(obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error)
	// Hub returns an object of any version in that of storage, as Convert does.
	Hub(obj runtime.Object) (runtime.Object, error)
	// Complete drops from an object of any version what its schema does not
	// know, and fills in what was left out. An error refuses the object.
	Complete(obj runtime.Object) error
	// Types describes the fields of the resource's kinds.
	Types() (managedfields.TypeConverter, error)
}
