package engine

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Written is a change of one stored object by a request. Objects are of the hub
// version.
type Written struct {
	GVR  schema.GroupVersionResource // of the request
	Kind string
	// Old is nil for a creation, New for a removal.
	Old, New Object
	Revision int64
	// Secret says that values of the object must not be told.
	Secret bool
}

// recordChange reports a change; i is the item that was stored. What could not be read has neither an old nor a new object.
func (w *write) recordChange(ctx context.Context, old, obj Object, i *store.Item) {
	if !w.recorded(ctx) || old == nil && obj == nil {
		return
	}
	w.e.Wrote(ctx, Written{GVR: w.GVR, Kind: w.R.Kind, Old: old, New: obj, Revision: revOf(i), Secret: w.R.Secret})
}

// recorded says that changes by this write are reported.
func (w *write) recorded(ctx context.Context) bool {
	return w.e.Wrote != nil && !w.dryRun && request.Recorded(ctx)
}

// recordTarget records which object a request is for, if its path does not tell.
func (w *write) recordTarget(ctx context.Context, obj Object) {
	if !request.Recorded(ctx) {
		return
	}
	if obj == nil {
		request.SetObject(ctx, w.namespace, w.name, w.dryRun)
		return
	}
	name := obj.GetName()
	if name == "" {
		name = obj.GetGenerateName()
	}
	request.SetObject(ctx, obj.GetNamespace(), name, w.dryRun)
}

// refused records the reason of a refusal, its message, and the fields that it names.
func refused(req *http.Request, st *metav1.Status) {
	if !request.Recorded(req.Context()) {
		return
	}
	var fields []string
	if st.Details != nil {
		for _, cause := range st.Details.Causes[:min(len(st.Details.Causes), refusedFields)] {
			if cause.Field != "" {
				fields = append(fields, cause.Field)
			}
		}
	}
	request.SetRefused(req.Context(), string(st.Reason), st.Message, fields)
}

// refusedFields bounds the fields that are recorded of a refusal.
const refusedFields = 16
