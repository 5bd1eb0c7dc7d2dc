package admissiontest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kanzen-io/kanzen/internal/admission"
)

// View is the stored objects of a kind, which tests change all at once.
type View struct {
	changed atomic.Int64
	mu      sync.Mutex
	objects []admission.Object // guarded by mu
}

// Set puts objects in the place of those before.
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

// Objects are those set last.
func (v *View) Objects(context.Context) ([]admission.Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects, nil
}
