package planes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// sliced is the cache of one plane: what a shared cache has of it. It reads as the cache of controller-runtime does.
type sliced struct {
	of     cache.Cache // of shared informers
	scheme *runtime.Scheme
	plane  string
	begun  <-chan struct{} // closed when the shared cache is started
}

var _ cache.Cache = &sliced{}

// shared returns the informer of a kind, which is started if there is none.
func (c *sliced) shared(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (*shared, error) {
	informer, err := c.of.GetInformer(ctx, obj, options...)
	if err != nil {
		return nil, err
	}
	s, ok := informer.(*shared)
	if !ok {
		return nil, fmt.Errorf("the cache of all planes has a %T", informer)
	}
	return s, nil
}

// reader returns the objects of a kind.
func (c *sliced) reader(ctx context.Context, obj client.Object) (toolscache.Indexer, error) {
	if !done(c.begun) {
		return nil, &cache.ErrCacheNotStarted{}
	}
	s, err := c.shared(ctx, obj)
	if err != nil {
		return nil, err
	}
	return s.read(c.plane), nil
}

// Get is part of client.Reader.
func (c *sliced) Get(ctx context.Context, key client.ObjectKey, out client.Object, options ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(out, c.scheme)
	if err != nil {
		return err
	}
	objects, err := c.reader(ctx, out)
	if err != nil {
		return err
	}
	found, ok, err := objects.GetByKey(strings.TrimPrefix(key.Namespace+"/"+key.Name, "/"))
	if err == nil && !ok {
		// Kinds without namespaces are found whatever the namespace is, and only their keys have no slash.
		found, ok, err = objects.GetByKey(key.Name)
	}
	if err != nil {
		return err
	}
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
	}
	var wants client.GetOptions
	wants.ApplyOptions(options)
	from := reflect.ValueOf(given(found.(runtime.Object), kind, wants.UnsafeDisableDeepCopy))
	to := reflect.ValueOf(out)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("the cache has a %s, but a %s was asked for", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// given is what a reader gets of an object: a copy, unless it has asked for the object that is shared.
func given(obj runtime.Object, kind schema.GroupVersionKind, itself *bool) runtime.Object {
	if itself != nil && *itself {
		return obj
	}
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj
}

// List is part of client.Reader.
func (c *sliced) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	var wants client.ListOptions
	wants.ApplyOptions(options)
	if wants.Continue != "" {
		return errors.New("the cache does not support continue")
	}
	kind, obj, err := c.elementOf(out)
	if err != nil {
		return err
	}
	objects, err := c.reader(ctx, obj)
	if err != nil {
		return err
	}
	found, err := selected(objects, &wants)
	if err != nil {
		return err
	}
	items := make([]runtime.Object, 0, len(found))
	for _, one := range found {
		if wants.Limit > 0 && int64(len(items)) >= wants.Limit {
			break
		}
		items = append(items, given(one.(runtime.Object), kind, wants.UnsafeDisableDeepCopy))
	}
	return meta.SetList(out, items)
}

// elementOf returns the kind of a list's items, and one of them.
func (c *sliced) elementOf(list client.ObjectList) (schema.GroupVersionKind, client.Object, error) {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return kind, nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	switch list.(type) {
	case runtime.Unstructured:
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		return kind, obj, nil
	case *metav1.PartialObjectMetadataList:
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind)
		return kind, obj, nil
	}
	obj, err := c.scheme.New(kind)
	if err != nil {
		return kind, nil, err
	}
	one, ok := obj.(client.Object)
	if !ok {
		return kind, nil, fmt.Errorf("%T is no object", obj)
	}
	return kind, one, nil
}

// selected returns those of a plane's objects that a list asks for.
func selected(objects toolscache.Indexer, wants *client.ListOptions) (found []any, err error) {
	switch {
	case wants.FieldSelector != nil && !wants.FieldSelector.Empty():
		found, err = byFields(objects, wants.FieldSelector.Requirements(), wants.Namespace)
	case wants.Namespace != "":
		found, err = objects.ByIndex(toolscache.NamespaceIndex, wants.Namespace)
	default:
		found = objects.List()
	}
	if err != nil || wants.LabelSelector == nil {
		return found, err
	}
	return slices.DeleteFunc(found, func(obj any) bool {
		about, err := meta.Accessor(obj)
		return err != nil || !wants.LabelSelector.Matches(labels.Set(about.GetLabels()))
	}), nil
}

// everywhere stands for all namespaces in the values of indexes. It is controller-runtime's, as is the form of the keys: its cache
// makes the indexes.
const everywhere = "__all_namespaces"

// byFields returns the objects for which all indexes have the value that is asked for.
func byFields(objects toolscache.Indexer, wants fields.Requirements, namespace string) (found []any, err error) {
	if namespace == "" {
		namespace = everywhere
	}
	for n, want := range wants {
		if want.Operator != selection.Equals && want.Operator != selection.DoubleEquals {
			return nil, fmt.Errorf("%s: the cache supports field selectors with = only", want.Field)
		}
		name, value := "field:"+want.Field, namespace+"/"+want.Value
		if n == 0 {
			if found, err = objects.ByIndex(name, value); err != nil {
				return nil, err
			}
			continue
		}
		values := objects.GetIndexers()[name]
		if values == nil {
			return nil, fmt.Errorf("there is no index of the field %s", want.Field)
		}
		found = slices.DeleteFunc(found, func(obj any) bool {
			has, err := values(obj)
			return err != nil || !slices.Contains(has, value)
		})
	}
	return found, nil
}

// GetInformer is part of cache.Informers.
func (c *sliced) GetInformer(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	s, err := c.shared(ctx, obj, options...)
	if err != nil {
		return nil, err
	}
	return slicedInformer{s, c.plane}, nil
}

// GetInformerForKind is part of cache.Informers.
func (c *sliced) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	one, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", obj)
	}
	return c.GetInformer(ctx, one, options...)
}

// RemoveInformer is part of cache.Informers.
func (c *sliced) RemoveInformer(context.Context, client.Object) error {
	return errors.New("the informer of a plane cannot be removed: all planes share it")
}

// IndexField indexes the field in all planes.
func (c *sliced) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return c.of.IndexField(ctx, obj, field, extract)
}

// Start is part of cache.Informers. The provider starts what is shared.
func (c *sliced) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync is part of cache.Informers.
func (c *sliced) WaitForCacheSync(ctx context.Context) bool { return c.of.WaitForCacheSync(ctx) }

// slicedInformer is the informer of one plane.
type slicedInformer struct {
	*shared
	plane string
}

var _ cache.Informer = slicedInformer{}

// AddEventHandler is part of cache.Informer, as all that follows.
func (i slicedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler. It is resynced with all others of the cache, or not at all if the period is 0.
func (i slicedInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, as AddEventHandlerWithResyncPeriod does.
func (i slicedInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	l, err := i.listen(i.plane, handler, options.ResyncPeriod == nil || *options.ResyncPeriod > 0)
	if err != nil {
		return nil, err // not a listener that is nil
	}
	return l, nil
}

// RemoveEventHandler removes a handler, which may be told of one more event.
func (i slicedInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("a %T is no handler of this informer", handle)
	}
	i.ignore(l)
	return nil
}
