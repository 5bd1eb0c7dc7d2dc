package engine

import (
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Common has the objects of values that many control planes of a process have stored, decoded once for all of them. These must have the
// same settings, as settings decide how objects are decoded. The values are known from the beginning, and none is added.
type Common struct {
	// objects are found by the place of a value in memory: an equal one that a control plane has stored itself is another.
	objects map[*byte]*commonObject
}

// commonObject is what is decoded of one value.
type commonObject struct {
	mu   sync.Mutex
	obj  Object                  // nil: nobody has needed it yet; guarded by mu, as is all below
	kind schema.GroupVersionKind // as which it is decoded
	rev  int64                   // that it has
}

// NewCommon makes what is common to control planes that have some values, which must not be changed.
func NewCommon(values iter.Seq[[]byte]) *Common {
	c := &Common{objects: map[*byte]*commonObject{}}
	for value := range values {
		if len(value) > 0 {
			c.objects[&value[0]] = &commonObject{}
		}
	}
	return c
}

// decoded returns the object of a value at a revision, decoded as a kind by who is first. Others share it, and must not change it. What
// is not common is decoded for the caller.
func (c *Common) decoded(value []byte, kind schema.GroupVersionKind, rev int64, decode func() (Object, error)) (Object, error) {
	if c == nil || len(value) == 0 {
		return decode()
	}
	o := c.objects[&value[0]]
	if o == nil {
		return decode()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.obj != nil && (o.kind != kind || o.rev != rev) {
		return decode()
	}
	if o.obj == nil {
		obj, err := decode()
		if err != nil {
			return nil, err
		}
		o.obj, o.kind, o.rev = obj, kind, rev
	}
	return o.obj, nil
}

// Each calls f with each object that is decoded.
func (c *Common) Each(f func(Object)) {
	for _, o := range c.objects {
		o.mu.Lock()
		obj := o.obj
		o.mu.Unlock()
		if obj != nil {
			f(obj)
		}
	}
}
