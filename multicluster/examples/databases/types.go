package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// groupVersion is that of Database.
var groupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Database is what consumers ask for. controller-gen writes the DeepCopy functions below in other projects.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DatabaseSpec   `json:"spec,omitempty"`
	Status            DatabaseStatus `json:"status,omitempty"`
}

// DatabaseSpec is what a database is to be.
type DatabaseSpec struct {
	Size int `json:"size,omitempty"`
}

// DatabaseStatus is how it is.
type DatabaseStatus struct {
	// Host is where it is.
	Host string `json:"host,omitempty"`
	// Secret is the name of the secret with its password.
	Secret string `json:"secret,omitempty"`
	// Message says what is wrong.
	Message string `json:"message,omitempty"`
}

// DeepCopyObject is part of runtime.Object.
func (d *Database) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DatabaseList is a list of them.
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}

// DeepCopyObject is part of runtime.Object.
func (l *DatabaseList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Database, len(l.Items))
	for n := range l.Items {
		out.Items[n] = *l.Items[n].DeepCopyObject().(*Database)
	}
	return &out
}

// newScheme has Kubernetes' types and Database.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	s.AddKnownTypes(groupVersion, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return s, clientgoscheme.AddToScheme(s)
}
