package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a TrafficStat counts requests by.
const (
	ByAll             = "All"
	ByVerb            = "Verb"
	ByResource        = "Resource"
	ByClient          = "Client"
	ByUser            = "User"
	ByLayer           = "Layer"
	ByClientResource  = "ClientResource"
	ByResourceWebhook = "ResourceWebhook"
)

// TrafficStat is the requests of the last minute that have something in common. They are estimated from those that were
// kept: exactly for writes and errors, from a sample for reads. Watches and streams are counted, and have no latency.
type TrafficStat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	By       string `json:"by"`
	Verb     string `json:"verb,omitempty"`
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource,omitempty"`
	Client   string `json:"client,omitempty"`
	User     string `json:"user,omitempty"`
	Layer    string `json:"layer,omitempty"`
	Webhook  string `json:"webhook,omitempty"`

	PerSecond float64 `json:"perSecond"`
	// RefusedPerSecond are answers 4xx but 404, FailedPerSecond 5xx.
	RefusedPerSecond float64 `json:"refusedPerSecond,omitempty"`
	FailedPerSecond  float64 `json:"failedPerSecond,omitempty"`
	// BytesPerSecond are those of answers.
	BytesPerSecond float64         `json:"bytesPerSecond,omitempty"`
	P50            metav1.Duration `json:"p50"`
	P99            metav1.Duration `json:"p99"`
	Max            metav1.Duration `json:"max"`
}

// TrafficStatList is a list of statistics.
type TrafficStatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []TrafficStat `json:"items"`
}

// View is what the server has in memory of a resource.
type View struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Loaded says that the objects are in memory. They are loaded when they are first asked for.
	Loaded  bool  `json:"loaded"`
	Objects int64 `json:"objects"`
	// Bytes are those of the stored objects.
	Bytes    int64 `json:"bytes"`
	Watchers int64 `json:"watchers"`
	// Window is how many events are kept for watches that begin in the past.
	Window     int64 `json:"window"`
	Events     int64 `json:"events"` // since the server started
	Unreadable int64 `json:"unreadable,omitempty"`
	// Rank is 1 for the view with the most bytes. The field costliest selects those up to 100.
	Rank     int64 `json:"rank"`
	Revision int64 `json:"revision,omitempty"`
}

// ViewList is a list of views.
type ViewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []View `json:"items"`
}

// Controller is the work queue of a controller in the server.
type Controller struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Waiting int64 `json:"waiting"`
	Working int64 `json:"working"`
	Added   int64 `json:"added"`   // since the server started
	Retries int64 `json:"retries"` // of those
	// MeanWait and MeanWork are how long names waited, and how long the work on one took, on average.
	MeanWait metav1.Duration `json:"meanWait"`
	MeanWork metav1.Duration `json:"meanWork"`
	// Longest is how long the oldest work under way takes.
	Longest metav1.Duration `json:"longest"`
}

// ControllerList is a list of controllers.
type ControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Controller `json:"items"`
}

// Datastore is an etcd.
type Datastore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Error is why it does not answer; "" if it does.
	Error string `json:"error,omitempty"`
	// Latency is how long it took to ask it for its newest revision.
	Latency metav1.Duration `json:"latency"`
	// Bytes are allocated, InUse of them hold something; a defragmentation gives back the rest. Quota 0 is unknown.
	Bytes int64 `json:"bytes"`
	InUse int64 `json:"inUse"`
	Quota int64 `json:"quota,omitempty"`
	// Revision is the newest, Seen the one that this server has seen, Compacted the oldest that can still be read.
	Revision  int64 `json:"revision"`
	Seen      int64 `json:"seen"`
	Compacted int64 `json:"compacted,omitempty"`
}

// DatastoreList is a list of datastores.
type DatastoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Datastore `json:"items"`
}

// PriorityLevel is what a priority level does now.
type PriorityLevel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Exempt bool `json:"exempt,omitempty"`
	// Seats are those that it has now, Nominal its own; others may have lent or borrowed the difference.
	Seats        int64 `json:"seats"`
	Nominal      int64 `json:"nominal"`
	SeatsInUse   int64 `json:"seatsInUse"`
	Executing    int64 `json:"executing"`
	Waiting      int64 `json:"waiting"`
	Queues       int64 `json:"queues"`
	ActiveQueues int64 `json:"activeQueues"`
	QueueLength  int64 `json:"queueLength"`
	// Since the server started.
	Dispatched int64 `json:"dispatched"`
	Rejected   int64 `json:"rejected"`
	TimedOut   int64 `json:"timedOut"`
}

// PriorityLevelList is a list of priority levels.
type PriorityLevelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []PriorityLevel `json:"items"`
}

// Definition is what a CustomResourceDefinition costs this server.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Group    string   `json:"group"`
	Resource string   `json:"resource"`
	Versions []string `json:"versions"`
	// Established says that it is served.
	Established bool `json:"established"`
	// DefinitionBytes are those of the definition itself.
	DefinitionBytes int64 `json:"definitionBytes"`
	// Compiled are the versions whose schema was needed.
	Compiled []string `json:"compiled,omitempty"`
	// Loaded says that its objects are in memory; Objects, Bytes and Watchers are those of its View.
	Loaded   bool  `json:"loaded"`
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"`
	Watchers int64 `json:"watchers"`
	// Rank is 1 for the definition whose objects have the most bytes. The field costliest selects those up to 100.
	Rank int64 `json:"rank"`
}

// DefinitionList is a list of definitions.
type DefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Definition `json:"items"`
}

// The copies share what is immutable: everything but the metadata.

// DeepCopyObject is part of runtime.Object.
func (t *TrafficStat) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (v *View) DeepCopyObject() runtime.Object {
	c := *v
	v.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (o *Controller) DeepCopyObject() runtime.Object {
	c := *o
	o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (d *Datastore) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (p *PriorityLevel) DeepCopyObject() runtime.Object {
	c := *p
	p.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (d *Definition) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is part of runtime.Object.
func (l *TrafficStatList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *ViewList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *ControllerList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DatastoreList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *PriorityLevelList) DeepCopyObject() runtime.Object { return copyList(l) }

// DeepCopyObject is part of runtime.Object.
func (l *DefinitionList) DeepCopyObject() runtime.Object { return copyList(l) }
