package planes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The API of planes, as definitions.yaml describes it.
const (
	// Group is its API group, Version its version.
	Group, Version = "planes.kanzen.io", "v1"
	// Namespace of the root has the secrets of planes.
	Namespace = "kanzen-planes"
	// finalizer keeps a Plane until nothing of it is stored any more.
	finalizer = Group + "/storage"
	// ready is the condition that says that requests are answered.
	ready = "Ready"
	// withinLimits is the condition that says that nothing was refused lately because of the limits.
	withinLimits = "WithinLimits"
)

// Plane is a control plane.
type Plane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              PlaneSpec   `json:"spec,omitempty"`
	Status            PlaneStatus `json:"status,omitempty"`
}

// PlaneSpec is what a control plane is to be.
type PlaneSpec struct {
	// Template is the name of the PlaneTemplate whose objects it begins with; "": none.
	Template string `json:"template,omitempty"`
	// Parameters are the values of the template's parameters.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Imported says that its objects come from a file: it is not ready before they were imported.
	Imported bool `json:"imported,omitempty"`
	// Server is the name of the server that is to have it, of those that share an etcd; "", or one that does not run: any.
	Server string `json:"server,omitempty"`
	// StorageClass is the etcd that it is to lie in, one of --planes-storage; "": the log of the root.
	StorageClass string `json:"storageClass,omitempty"`
	// Limits bound what it may use.
	Limits Limits `json:"limits,omitempty"`
}

// Limits bound what a control plane may use. 0 is no limit, or that of the server.
type Limits struct {
	// RequestsPerSecond is how many requests are answered in a second, in the mean; as many more may come at once.
	RequestsPerSecond int `json:"requestsPerSecond,omitempty"`
	// Watches is how many long-running requests there may be at a time.
	Watches int `json:"watches,omitempty"`
	// Objects is how many objects it may have, and Bytes how large they may be together, as they are stored.
	Objects int64 `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
}

// PlaneStatus is how a control plane is.
type PlaneStatus struct {
	// URL is where it is.
	URL string `json:"url,omitempty"`
	// Kubeconfig names the secret in the namespace kanzen-planes that has its administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// State is Asleep or Awake.
	State string `json:"state,omitempty"`
	// Server is the one on which it is awake, by the host and port at which the others reach it; nil: it is asleep, or there are no others.
	Server *string `json:"server"`
	// StorageClass is the one that it lies in; nil: it lies in the log of the root.
	StorageClass *string `json:"storageClass"`
	// Wakes is when it wakes by itself, because its controllers have something to do; nil: never.
	Wakes *metav1.Time `json:"wakes"`
	// Objects and Bytes are what is stored of its own, beside its base, as it was last counted.
	Objects int64 `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	// Requests is how many it got since the server started, and Watches how many long-running ones there were, when the status was written.
	Requests int64 `json:"requests"`
	Watches  int64 `json:"watches"`
	// Base is what it began with, which it shares with other planes; "": it has stored that itself.
	Base string `json:"base,omitempty"`
	// FirstObjects is a digest of the version and settings with which its first objects were made: a server with the same does not look for
	// them when it starts the plane. "": there are none yet.
	FirstObjects string             `json:"firstObjects,omitempty"`
	Conditions   []metav1.Condition `json:"conditions,omitempty"`
}

// server is the one on which it is awake; "": none, or there are no others.
func (s *PlaneStatus) server() string {
	if s.Server == nil {
		return ""
	}
	return *s.Server
}

// storageClass is the one that it lies in; "": the log of the root.
func (s *PlaneStatus) storageClass() string {
	if s.StorageClass == nil {
		return ""
	}
	return *s.StorageClass
}

// PlaneTemplate is what control planes begin with.
type PlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              PlaneTemplateSpec `json:"spec,omitempty"`
}

// PlaneTemplateSpec is the content of a template.
type PlaneTemplateSpec struct {
	// Parameters are those that its objects name, as $(NAME) in their texts.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Objects are applied, in this order.
	Objects []runtime.RawExtension `json:"objects,omitempty"`
}

// Parameter of a template.
type Parameter struct {
	Name string `json:"name"`
	// Default is its value in planes that give none; nil: they must.
	Default *string `json:"default,omitempty"`
}

// States of control planes.
const (
	asleep = "Asleep"
	awake  = "Awake"
)
