package recorder

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file decides what a reader is told of the objects that requests were about. Whoever may read requests may not
// therefore read objects: their values are told only to a reader who may get the object, which is asked at that moment.

// reader is who reads what was recorded.
type reader struct {
	// name is empty if it does not tell who the reader is: anybody is the anonymous user, and a name that text has changed may be that of
	// several users.
	name string
	// may says that the reader may get an object.
	may func(o v1alpha1.ObjectReference) bool
}

// readerOf returns the reader whose request has a context.
func (d *Deps) readerOf(ctx context.Context) reader {
	r := reader{may: func(o v1alpha1.ObjectReference) bool { return d.MayGet(ctx, o) == nil }}
	if u := request.UserFrom(ctx); u != nil && u.GetName() != user.Anonymous && !strings.ContainsAny(u.GetName(), scrubbed) {
		r.name = u.GetName()
	}
	return r
}

// was says that it was the reader who sent a request, or as whom it was sent.
func (r reader) was(user, impersonated string) bool {
	return r.name != "" && cmp.Or(impersonated, user) == r.name
}

// hears says that the reader is told the message of a refusal: the refused user knows it, and a reader who may get the object would
// have read what it quotes if the write had succeeded. The right to create is not enough, since what others send is not told to
// those who may send something, too.
func (r reader) hears(rec *v1alpha1.Record, o v1alpha1.ObjectReference) bool {
	return r.was(rec.User, rec.Impersonated) || r.may(o)
}

// told returns a record with the contents of those objects alone that the reader may get. Of others it has the names of
// fields, without the keys and names of items that stand in their paths.
func told(rec *v1alpha1.Record, to reader) v1alpha1.Record {
	out := *rec
	itself := v1alpha1.ObjectReference{Group: rec.Group, Resource: rec.Resource, Namespace: rec.Namespace, Name: rec.Name}
	if rec.Message != "" && !to.hears(rec, itself) {
		out.Message = ""
	}
	if len(rec.Fields) > 0 && !to.may(itself) {
		out.Fields = make([]string, len(rec.Fields))
		for n, f := range rec.Fields {
			out.Fields[n] = outline(f)
		}
	}
	for n := range rec.Changes {
		c := &rec.Changes[n]
		if len(c.Fields) == 0 || to.may(v1alpha1.ObjectReference{Group: c.Group, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}) {
			continue
		}
		if &out.Changes[0] == &rec.Changes[0] {
			out.Changes = slices.Clone(rec.Changes)
		}
		fields := withoutValues(c.Fields)
		for i := range fields {
			fields[i].Path = outline(fields[i].Path)
		}
		out.Changes[n].Fields = fields
	}
	return out
}

// anybody is a reader of whom it is not known what objects he may get.
func anybody() reader {
	return reader{may: func(v1alpha1.ObjectReference) bool { return false }}
}

// outline returns the path of a field up to the first key or item. Keys of maps that look like more than a name stand in
// brackets, too.
func outline(path string) string {
	path, _, _ = strings.Cut(path, "[")
	return path
}

// withoutValues returns fields whose values are hidden.
func withoutValues(fields []v1alpha1.FieldChange) []v1alpha1.FieldChange {
	out := make([]v1alpha1.FieldChange, len(fields))
	for n, f := range fields {
		out[n] = v1alpha1.FieldChange{Path: f.Path, Hidden: true}
	}
	return out
}

// stored returns a record as it is in a file (line): without values and messages.
func stored(rec *v1alpha1.Record) *v1alpha1.Record {
	if rec.Message == "" && !slices.ContainsFunc(rec.Changes, func(c v1alpha1.Change) bool { return len(c.Fields) > 0 }) {
		return rec
	}
	out := *rec
	out.Message = ""
	out.Changes = slices.Clone(rec.Changes)
	for n := range out.Changes {
		out.Changes[n].Fields = withoutValues(out.Changes[n].Fields)
	}
	return &out
}
