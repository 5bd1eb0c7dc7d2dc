package admissiontest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// View is the stored objects of a kind, which tests replace as a whole.
type View struct {
	changed atomic.Int64
	mu      sync.Mutex
	objects []admission.Object // guarded by mu
}

// Set replaces the objects.
func (v *View) Set(objs ...admission.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.changed.Add(1)
	for _, o := range objs {
		o.SetResourceVersion(strconv.FormatInt(n, 10))
	}
	v.objects = objs
}

// Changed is the revision of the last change.
func (v *View) Changed(context.Context) (int64, error) { return v.changed.Load(), nil }

// Objects returns the objects that were set last.
func (v *View) Objects(context.Context) ([]admission.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects, nil
}
