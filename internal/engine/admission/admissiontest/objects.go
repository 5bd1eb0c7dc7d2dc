// Package admissiontest has helpers for tests of admission plugins: stored
// objects in memory and short ways to describe a write.
package admissiontest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Objects are stored objects in memory.
type Objects struct {
	// Before, if set, is called between reading an object and storing its
	// update: what it stores conflicts with the update.
	Before func()

	mu      sync.Mutex
	objects map[string]admission.Object
	rev     int
}

// NewObjects returns the objects as if they were stored.
func NewObjects(objs ...admission.Object) *Objects {
	o := &Objects{objects: map[string]admission.Object{}}
	for _, obj := range objs {
		o.Put(obj)
	}
	return o
}

// Put stores an object.
func (o *Objects) Put(obj admission.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(obj)
}

func (o *Objects) put(obj admission.Object) {
	o.rev++
	obj.SetResourceVersion(strconv.Itoa(o.rev))
	o.objects[key(resourceOf(obj), obj.GetNamespace(), obj.GetName())] = obj
}

// resourceOf guesses the resource of an object from its Go type.
func resourceOf(obj admission.Object) string {
	name := strings.ToLower(reflect.TypeOf(obj).Elem().Name())
	if strings.HasSuffix(name, "s") {
		return name + "es"
	}
	return name + "s"
}

func key(resource, namespace, name string) string {
	return resource + "/" + namespace + "/" + name
}

// Seen returns a stored object.
func (o *Objects) Seen(_ context.Context, gr schema.GroupResource, namespace, name string) (admission.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if obj, ok := o.objects[key(gr.Resource, namespace, name)]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(gr, name)
}

// SeenList returns the stored objects of a namespace, by name.
func (o *Objects) SeenList(_ context.Context, gr schema.GroupResource, namespace string) ([]admission.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	prefix := gr.Resource + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	var out []admission.Object
	for _, k := range slices.Sorted(maps.Keys(o.objects)) {
		if strings.HasPrefix(k, prefix) {
			out = append(out, o.objects[k])
		}
	}
	return out, nil
}

// List is SeenList.
func (o *Objects) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]admission.Object, error) {
	return o.SeenList(ctx, gr, namespace)
}

// Update changes an object by compare and swap.
func (o *Objects) Update(ctx context.Context, gr schema.GroupResource, w request.Which, dryRun bool, change func(obj admission.Object) error) (admission.Object, error) {
	for {
		old, err := o.Seen(ctx, gr, w.Namespace(), w.Name())
		if err != nil {
			return nil, err
		}
		if w.OtherUID(old) || w.Changed(old) {
			return nil, apierrors.NewConflict(gr, w.Name(), errors.New("it is another object"))
		}
		obj := old.DeepCopyObject().(admission.Object)
		if err := change(obj); err != nil || dryRun {
			return obj, err
		}
		if o.Before != nil {
			o.Before()
		}
		o.mu.Lock()
		same := o.objects[key(gr.Resource, w.Namespace(), w.Name())] == old
		if same {
			o.put(obj)
		}
		o.mu.Unlock()
		if same {
			return obj, nil
		}
	}
}
