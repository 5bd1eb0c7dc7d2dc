// Package v1 is the API group fork.kanzen.io/v1: what is asked of forks as resources.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// GroupVersion returns the group and version.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "fork.kanzen.io", Version: "v1"}
}

// Merge brings what was changed in a fork back into the server. To create one carries it out, all or nothing; it is answered and not kept. It
// takes three sides of each object: what the fork began with, what the fork has, and what the server has now. Fields that only one
// side has changed are taken from it. If both have changed a field to different values, nothing is written, and the answer names
// all such fields, unless spec.force is set.
type Merge struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MergeSpec   `json:"spec"`
	Status MergeStatus `json:"status,omitempty"`
}

// MergeSpec says what is merged.
type MergeSpec struct {
	// Fork is the name of the fork.
	Fork string `json:"fork"`
	// Force takes the value of the fork where both sides have changed a field.
	Force bool `json:"force,omitempty"`
}

// MergeStatus is what was written.
type MergeStatus struct {
	// ResourceVersion is that of all objects that were changed. It is empty for a dry run, and if there was nothing to do.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Objects are the objects that were written, in their order.
	Objects []MergedObject `json:"objects,omitempty"`
	// Others are the objects that were written with them, such as the address of a service.
	Others []bundlev1.Other `json:"others,omitempty"`
	// Overwritten are the fields in which force has taken the value of the fork.
	Overwritten []Conflict `json:"overwritten,omitempty"`
	// Left are the objects that were changed in the fork and are left to their controllers.
	Left []Left `json:"left,omitempty"`
}

// MergedObject is an object that was written.
type MergedObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Result is created, changed, unchanged or deleted.
	Result string `json:"result"`
	// Object is the object as it was written; nothing if it was deleted.
	Object   runtime.RawExtension `json:"object,omitempty"`
	Warnings []string             `json:"warnings,omitempty"`
}

// Conflict is a field that both sides have changed. Values are those of JSON, cut after 80 bytes; those of Secrets are hidden.
type Conflict struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Field is empty if one side has deleted the object.
	Field string `json:"field,omitempty"`
	// Fork and Server are the values; empty: the field, or the object, is not there.
	Fork   string `json:"fork,omitempty"`
	Server string `json:"server,omitempty"`
	// ForkManagers and ServerManagers own the field, or have changed the object.
	ForkManagers   []string `json:"forkManagers,omitempty"`
	ServerManagers []string `json:"serverManagers,omitempty"`
}

// Left is an object that is left to its controller.
type Left struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Controller is what controls it, as Kind/name.
	Controller string `json:"controller"`
}

// MergeList is only there for the machinery: merges are not kept.
type MergeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Merge `json:"items"`
}

// DeepCopyObject is part of runtime.Object.
func (m *Merge) DeepCopyObject() runtime.Object {
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Objects = append([]MergedObject(nil), m.Status.Objects...)
	for n := range out.Status.Objects {
		o := &m.Status.Objects[n]
		o.Object.DeepCopyInto(&out.Status.Objects[n].Object)
		out.Status.Objects[n].Warnings = append([]string(nil), o.Warnings...)
	}
	out.Status.Others = append([]bundlev1.Other(nil), m.Status.Others...)
	out.Status.Overwritten = append([]Conflict(nil), m.Status.Overwritten...)
	for n := range out.Status.Overwritten {
		c := &out.Status.Overwritten[n]
		c.ForkManagers, c.ServerManagers = append([]string(nil), c.ForkManagers...), append([]string(nil), c.ServerManagers...)
	}
	out.Status.Left = append([]Left(nil), m.Status.Left...)
	return &out
}

// DeepCopyObject is part of runtime.Object.
func (l *MergeList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Merge, len(l.Items))
	for n := range l.Items {
		out.Items[n] = *l.Items[n].DeepCopyObject().(*Merge)
	}
	return &out
}
