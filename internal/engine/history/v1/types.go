// Package v1 has the answers about the past of objects: history.kanzen.io/v1.
package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the name of the API.
var GroupVersion = schema.GroupVersion{Group: "history.kanzen.io", Version: "v1"}

// RevisionList is the answer to a get or list with ?revisions=true: the changes of an object, or of objects, the newest first.
type RevisionList struct {
	metav1.TypeMeta `json:",inline"`
	// Since is the revision from which on the past is known.
	Since string     `json:"since"`
	Items []Revision `json:"items"`
	// More says that there are older ones: ?at= with a revision before the last one asks for them.
	More bool `json:"more,omitempty"`
}

// What a change is.
const (
	Created = "Created"
	Updated = "Updated"
	Deleted = "Deleted"
)

// Revision is a change of an object.
type Revision struct {
	ResourceVersion string      `json:"resourceVersion"`
	Time            metav1.Time `json:"time"`
	Operation       string      `json:"operation"`
	Namespace       string      `json:"namespace,omitempty"`
	Name            string      `json:"name"`
	UID             string      `json:"uid,omitempty"`
	// Who made it, told to those who may list the requests of the flight recorder. Request is the audit ID. Unknown, if another server has
	// made it.
	User        string `json:"user,omitempty"`
	UserAgent   string `json:"userAgent,omitempty"`
	Verb        string `json:"verb,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Request     string `json:"request,omitempty"`
	// Managers are the field managers whose entries the change has added or altered.
	Managers []string `json:"managers,omitempty"`
	// Changes are the fields that an update has changed, but for metadata.managedFields and metadata.resourceVersion.
	Changes []FieldChange `json:"changes,omitempty"`
	// MoreChanges says that there are more than are told.
	MoreChanges bool `json:"moreChanges,omitempty"`
	// Unreadable says why the object of this revision could not be read.
	Unreadable string `json:"unreadable,omitempty"`
}

// FieldChange is a field before and after a change; nil: it was not there.
type FieldChange struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// Forgotten is an object whose history is deleted for good. To create one deletes it; it is answered and not kept. What the object is now stays,
// as if it had been created by its last change.
type Forgotten struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ForgottenSpec   `json:"spec"`
	Status ForgottenStatus `json:"status,omitempty"`
}

// ForgottenSpec names the object. It need not exist any more.
type ForgottenSpec struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ForgottenStatus says what was done.
type ForgottenStatus struct {
	// Found says that there was a history.
	Found bool `json:"found"`
}

// ForgottenList is only for the machinery of kinds.
type ForgottenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Forgotten `json:"items"`
}

// DeepCopyObject is part of runtime.Object.
func (f *Forgotten) DeepCopyObject() runtime.Object {
	out := *f
	out.ObjectMeta = *f.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject is part of runtime.Object.
func (l *ForgottenList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = slices.Clone(l.Items)
	return &out
}
