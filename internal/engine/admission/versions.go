package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Version is the resource and kind of a write in one version.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// Versions gives the versions in which a resource is served. The objects under
// admission are of its storage version, whatever version the client has sent.
type Versions interface {
	// All returns the versions of the resource or of one of its subresources.
	All(subresource string) []Version
	// Convert converts an object of the resource to another version. It does
	// not change obj, and returns it if it has that version already. Another
	// server may do it, until ctx ends.
	Convert(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error)
	// Hub converts an object of any version to the storage version, as Convert
	// does.
	Hub(ctx context.Context, obj runtime.Object) (runtime.Object, error)
	// Complete prunes unknown fields from an object of any version, and sets
	// defaults. An error refuses the object.
	Complete(obj runtime.Object) error
	// Types describes the fields of the resource's kinds.
	Types() (managedfields.TypeConverter, error)
}
