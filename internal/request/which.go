package request

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Which says which object a write inside of the server is meant for. Whoever has looked at an object before acting on it
// names what was seen, since another object may have its name by the time of the act. The zero value names nothing, and
// a write with it is refused.
type Which struct {
	namespace, name string
	by              by
	uid             types.UID
	revision        string
}

// by is what an object must have to be the one that is meant.
type by int

const (
	byNothing by = iota
	byName
	byUID
	byRevision
)

// Same is the object that was seen, whatever has changed in it since.
func Same(seen metav1.Object) Which {
	return Which{namespace: seen.GetNamespace(), name: seen.GetName(), by: byUID, uid: seen.GetUID()}
}

// Unchanged is the object as it was seen. It is for decisions that depend on more than what never changes in an object.
func Unchanged(seen metav1.Object) Which {
	w := Same(seen)
	w.by, w.revision = byRevision, seen.GetResourceVersion()
	return w
}

// Named is whatever object has a name at the time of the write. It is for writers that have not decided anything by the
// object that they saw; each says why.
func Named(namespace, name string) Which {
	return Which{namespace: namespace, name: name, by: byName}
}

// NamedIf is whatever object has a name at the time of the write, if it has the UID and the revision that a client names; "" is any.
func NamedIf(namespace, name string, uid types.UID, revision string) Which {
	return Which{namespace: namespace, name: name, by: byName, uid: uid, revision: revision}
}

// Namespace returns the namespace of the object.
func (w Which) Namespace() string { return w.namespace }

// Name returns the name of the object.
func (w Which) Name() string { return w.name }

// Existing reports whether an object was seen. A write must not create it anew.
func (w Which) Existing() bool { return w.by == byUID || w.by == byRevision }

// errNothing means that a write does not say which object it is meant for.
var errNothing = errors.New("the write does not say which object it is meant for")

// Err returns an error if w names nothing.
func (w Which) Err() error {
	if w.by == byNothing || w.by == byRevision && w.revision == "" {
		return errNothing
	}
	return nil
}

// OtherUID reports whether an object is another one than what is meant.
func (w Which) OtherUID(obj metav1.Object) bool {
	return (w.Existing() || w.uid != "") && obj.GetUID() != w.uid
}

// Changed reports whether an object has changed, and must not have.
func (w Which) Changed(obj metav1.Object) bool {
	return w.revision != "" && obj.GetResourceVersion() != w.revision
}

// UID returns the UID that the object must have; "": any.
func (w Which) UID() types.UID { return w.uid }

// Revision returns the revision that the object must have; "": any.
func (w Which) Revision() string { return w.revision }

// Delete adds what must be true of the object to the options of its deletion, unless they say it; nil are the default
// options.
func (w Which) Delete(options *metav1.DeleteOptions) *metav1.DeleteOptions {
	out := &metav1.DeleteOptions{}
	if options != nil {
		options.DeepCopyInto(out)
	}
	uid := w.Existing() || w.uid != ""
	if !uid && w.revision == "" {
		return out
	}
	if out.Preconditions == nil {
		out.Preconditions = &metav1.Preconditions{}
	}
	if uid && out.Preconditions.UID == nil {
		out.Preconditions.UID = &w.uid
	}
	if w.revision != "" && out.Preconditions.ResourceVersion == nil {
		out.Preconditions.ResourceVersion = &w.revision
	}
	return out
}
