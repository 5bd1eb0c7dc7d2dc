package recorder

import (
	"context"
	"strconv"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Wrote records what the context's request has changed: which fields, and their values unless the object is secret. Who is
// told of the values is decided when they are read.
func Wrote(ctx context.Context, w engine.Written) {
	c := request.Change{Group: w.GVR.Group, Resource: w.GVR.Resource, Kind: w.Kind, ResourceVersion: strconv.FormatInt(w.Revision, 10)}
	obj := w.New
	switch {
	case w.Old == nil:
		c.Operation = request.ChangeCreated
	case w.New == nil:
		c.Operation, obj = request.ChangeDeleted, w.Old
	default:
		c.Operation = request.ChangeUpdated
		if w.Old.GetDeletionTimestamp() == nil && w.New.GetDeletionTimestamp() != nil {
			c.Operation = request.ChangeDeleting
		}
		c.Fields, c.MoreFields = compare(w.Old, w.New, w.Secret || secret(w))
	}
	c.Namespace, c.Name, c.UID = obj.GetNamespace(), obj.GetName(), string(obj.GetUID())
	if w.GVR.Resource == "namespaces" && w.GVR.Group == "" {
		c.Namespace = c.Name // as requests for a namespace have it
	}
	request.AddChange(ctx, c)
}

// secret says that a built-in kind holds secrets.
func secret(w engine.Written) bool { return w.GVR.Group == "" && w.GVR.Resource == "secrets" }

// changes bounds the texts of changes.
func (r *Recorder) changes(all []request.Change) []v1alpha1.Change {
	if len(all) == 0 {
		return nil
	}
	out := make([]v1alpha1.Change, len(all))
	for n := range all {
		c := &all[n]
		out[n] = v1alpha1.Change{Operation: c.Operation, Group: shared(c.Group, maxName), Resource: shared(c.Resource, maxName), Kind: shared(c.Kind, maxName),
			Namespace: shared(c.Namespace, maxName), Name: text(c.Name, maxName), UID: text(c.UID, maxID), ResourceVersion: c.ResourceVersion,
			Fields: c.Fields, MoreFields: c.MoreFields}
	}
	return out
}
