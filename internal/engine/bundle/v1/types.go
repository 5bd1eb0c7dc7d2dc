// Package v1 is the API group bundle.kanzen.io/v1: writes that happen together or not at all.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the name of the group.
const GroupName = "bundle.kanzen.io"

// GroupVersion returns the group and version.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: GroupName, Version: "v1"} }

// Bundle is writes of objects of any kinds. To create one carries them out, one after another, each as if it were requested alone by the
// same user, and each seeing the ones before it; they are stored in one transaction. If one is refused, nothing is written. Bundles
// are answered and not kept.
type Bundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BundleSpec   `json:"spec"`
	Status BundleStatus `json:"status,omitempty"`
}

// BundleSpec says what is written.
type BundleSpec struct {
	// Namespace is that of objects which have none and need one; empty: default.
	Namespace string `json:"namespace,omitempty"`
	// Items are the writes, in their order; there may be 1 to 500.
	Items []Item `json:"items"`
	// Consequences has the controllers of this server do, on a copy that is thrown away, what follows from the writes, until they have
	// nothing to do. It is for dry runs.
	Consequences bool `json:"consequences,omitempty"`
}

// Verbs of items.
const (
	Apply  = "apply"
	Create = "create"
	Update = "update"
	Delete = "delete"
)

// Item is the write of one object.
type Item struct {
	// Verb is apply (server-side apply; the default), create, update or delete.
	Verb string `json:"verb,omitempty"`
	// Object is the object. To delete one needs no more than its apiVersion, kind and name. metadata.uid and metadata.resourceVersion are
	// preconditions, if they are set.
	Object runtime.RawExtension `json:"object"`
	// Force takes over fields that other managers have set. It is for apply.
	Force bool `json:"force,omitempty"`
	// Subresource is what is written in place of the object's main part, such as status. It is for apply and update.
	Subresource string `json:"subresource,omitempty"`
	// PropagationPolicy says what becomes of dependents. It is for delete.
	PropagationPolicy *metav1.DeletionPropagation `json:"propagationPolicy,omitempty"`
}

// BundleStatus is what was written.
type BundleStatus struct {
	// ResourceVersion is that of all objects that were changed. It is empty for a dry run.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Items are the answers, in the order of spec.items.
	Items []ItemStatus `json:"items,omitempty"`
	// Others are the objects that were written with them, such as the address of a service.
	Others []Other `json:"others,omitempty"`
	// Consequences are the objects that controllers would write afterwards, if spec.consequences asks for them, and of which the user may
	// get the kind.
	Consequences []Consequence `json:"consequences,omitempty"`
	// Hidden counts the other ones.
	Hidden int `json:"hidden,omitempty"`
	// Unsettled says that controllers still had something to do when their time was over.
	Unsettled bool `json:"unsettled,omitempty"`
}

// Other is an object that was written with those of the items.
type Other struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Result is created, changed or deleted.
	Result string `json:"result"`
}

// Consequence is an object that controllers would write.
type Consequence struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Result is created, changed or deleted, compared with what there is once the items are written.
	Result string `json:"result"`
	// Object is what the object would be; nothing if it would be deleted.
	Object runtime.RawExtension `json:"object,omitempty"`
}

// ItemStatus is the answer to one write.
type ItemStatus struct {
	// Result is created, changed, unchanged or deleted.
	Result string `json:"result"`
	// Object is the object as it was after this write.
	Object runtime.RawExtension `json:"object,omitempty"`
	// Warnings are those of this write.
	Warnings []string `json:"warnings,omitempty"`
}

// Results of items.
const (
	Created   = "created"
	Changed   = "changed"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// BundleList is only there for the machinery: bundles are not kept.
type BundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bundle `json:"items"`
}

// DeepCopyObject is part of runtime.Object.
func (b *Bundle) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Consequences = append([]Consequence(nil), b.Status.Consequences...)
	for n := range b.Status.Consequences {
		b.Status.Consequences[n].Object.DeepCopyInto(&out.Status.Consequences[n].Object)
	}
	out.Spec.Items = make([]Item, len(b.Spec.Items))
	for n, i := range b.Spec.Items {
		i.Object.DeepCopyInto(&out.Spec.Items[n].Object)
		o := &out.Spec.Items[n]
		o.Verb, o.Force, o.Subresource = i.Verb, i.Force, i.Subresource
		if i.PropagationPolicy != nil {
			policy := *i.PropagationPolicy
			o.PropagationPolicy = &policy
		}
	}
	out.Status.Items = make([]ItemStatus, len(b.Status.Items))
	for n, i := range b.Status.Items {
		o := &out.Status.Items[n]
		i.Object.DeepCopyInto(&o.Object)
		o.Result, o.Warnings = i.Result, append([]string(nil), i.Warnings...)
	}
	out.Status.Others = append([]Other(nil), b.Status.Others...)
	return &out
}

// DeepCopyObject is part of runtime.Object.
func (l *BundleList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Bundle, len(l.Items))
	for n := range l.Items {
		out.Items[n] = *l.Items[n].DeepCopyObject().(*Bundle)
	}
	return &out
}
