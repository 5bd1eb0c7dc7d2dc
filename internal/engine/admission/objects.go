package admission

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Object is an API object with metadata.
type Object interface {
	runtime.Object
	metav1.Object
}

// Objects lets plugins read and change stored objects other than the object of
// a write. Objects returned by Seen, SeenList, Get and List are shared and must
// not be changed. A missing object is an apierrors NotFound.
type Objects interface {
	// Seen returns an object as this server last saw it, without asking etcd;
	// it asks etcd only if the object is missing.
	Seen(ctx context.Context, gr schema.GroupResource, namespace, name string) (Object, error)
	// SeenList returns the objects of a namespace ("" is all) as this server
	// last saw them, without asking etcd.
	SeenList(ctx context.Context, gr schema.GroupResource, namespace string) ([]Object, error)
	// List returns the newest objects of a namespace ("" is all).
	List(ctx context.Context, gr schema.GroupResource, namespace string) ([]Object, error)
	// Update changes a stored object by a func, which may be called several
	// times, each time with the object stored then; its error ends the update.
	Update(ctx context.Context, gr schema.GroupResource, w request.Which, dryRun bool, change func(obj Object) error) (Object, error)
}

// View gives all stored objects of a kind.
type View interface {
	// Changed returns a number that stays the same while the objects do.
	Changed(ctx context.Context) (int64, error)
	// Objects returns them in the order of their names.
	Objects(ctx context.Context) ([]Object, error)
}

// Seen returns an object of type T as this server last saw it.
func Seen[T Object](ctx context.Context, o Objects, gr schema.GroupResource, namespace, name string) (T, error) {
	var none T
	obj, err := o.Seen(ctx, gr, namespace, name)
	if err != nil {
		return none, err
	}
	t, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s %s is a %T", gr, name, obj)
	}
	return t, nil
}

// SeenList returns the objects of type T in a namespace ("" is all) as this
// server last saw them.
func SeenList[T Object](ctx context.Context, o Objects, gr schema.GroupResource, namespace string) ([]T, error) {
	return typed[T](o.SeenList(ctx, gr, namespace))
}

// List returns the newest objects of type T in a namespace ("" is all).
func List[T Object](ctx context.Context, o Objects, gr schema.GroupResource, namespace string) ([]T, error) {
	return typed[T](o.List(ctx, gr, namespace))
}

func typed[T Object](objs []Object, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(objs))
	for _, obj := range objs {
		t, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("%s is a %T", obj.GetName(), obj)
		}
		out = append(out, t)
	}
	return out, nil
}
