// Package v1alpha1 has the types of the group flightrecorder.kanzen.io, by which the flight recorder is read. Nothing
// of them is stored in etcd. They contain no token, no body, no message of a webhook and no value of a secret.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the name of the group.
const GroupName = "flightrecorder.kanzen.io"

// GroupVersion returns the group and version.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// Request is a request that was kept. Its name is its number.
type Request struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Record            `json:",inline"`
}

// RequestList is a list of requests, in the order in which they ended.
type RequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Request `json:"items"`
}

// Why a request was kept.
const (
	KeptWrite   = "Write"
	KeptRefused = "Refused"
	KeptError   = "Error"
	KeptSlow    = "Slow"
	KeptSample  = "Sample"
)

// Record is what is known of a request. It is immutable once it is kept.
type Record struct {
	// Number orders the requests of a server.
	Number int64 `json:"number"`
	// Time is when the request arrived, Duration how long it took.
	Time     metav1.MicroTime `json:"time"`
	Duration metav1.Duration  `json:"duration"`
	AuditID  string           `json:"auditID,omitempty"`
	// Kept is why the request was kept, and Weight for how many requests it stands.
	Kept   string `json:"kept"`
	Weight int64  `json:"weight"`

	User         string `json:"user,omitempty"`
	Impersonated string `json:"impersonated,omitempty"`
	UserAgent    string `json:"userAgent,omitempty"`
	SourceIP     string `json:"sourceIP,omitempty"`

	Verb        string `json:"verb"`
	Path        string `json:"path,omitempty"` // if it is no resource
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	DryRun      bool   `json:"dryRun,omitempty"`

	Code   int32  `json:"code"`
	Reason string `json:"reason,omitempty"`
	// Fields are those that a refusal names.
	Fields        []string `json:"fields,omitempty"`
	RequestBytes  int64    `json:"requestBytes,omitempty"`
	ResponseBytes int64    `json:"responseBytes,omitempty"`

	// Layers is the time in parts of the server, Steps in plugins, webhooks and policies.
	Layers      []Layer  `json:"layers,omitempty"`
	Steps       []Step   `json:"steps,omitempty"`
	MoreSteps   int      `json:"moreSteps,omitempty"`
	Changes     []Change `json:"changes,omitempty"`
	MoreChanges int      `json:"moreChanges,omitempty"`
}

// Layer is the time that a request spent in a part of the server. After is when it came there first, counted from the
// request's time; nil if that is not known. It may have been there several times.
type Layer struct {
	Name     string           `json:"name"`
	After    *metav1.Duration `json:"after,omitempty"`
	Duration metav1.Duration  `json:"duration"`
}

// Step is a plugin, webhook or policy on the way of a request. After is when it began, counted from the request's time.
type Step struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Phase    string          `json:"phase,omitempty"`
	After    metav1.Duration `json:"after"`
	Duration metav1.Duration `json:"duration"`
	Result   string          `json:"result"`
	Ignored  bool            `json:"ignored,omitempty"`
	Changed  bool            `json:"changed,omitempty"`
}

// Change is what a request did to an object.
type Change struct {
	Operation       string        `json:"operation"`
	Group           string        `json:"group,omitempty"`
	Resource        string        `json:"resource"`
	Kind            string        `json:"kind,omitempty"`
	Namespace       string        `json:"namespace,omitempty"`
	Name            string        `json:"name"`
	UID             string        `json:"uid,omitempty"`
	ResourceVersion string        `json:"resourceVersion,omitempty"`
	Fields          []FieldChange `json:"fields,omitempty"`
	MoreFields      int           `json:"moreFields,omitempty"`
}

// Watch is a watch that is being served. Its name is its number.
type Watch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	User          string           `json:"user,omitempty"`
	Impersonated  string           `json:"impersonated,omitempty"`
	UserAgent     string           `json:"userAgent,omitempty"`
	SourceIP      string           `json:"sourceIP,omitempty"`
	Group         string           `json:"group,omitempty"`
	Version       string           `json:"version,omitempty"`
	Resource      string           `json:"resource"`
	Namespace     string           `json:"namespace,omitempty"`
	Name          string           `json:"name,omitempty"`
	LabelSelector string           `json:"labelSelector,omitempty"`
	FieldSelector string           `json:"fieldSelector,omitempty"`
	Began         metav1.MicroTime `json:"began"`
	Events        int64            `json:"events"`
	Bytes         int64            `json:"bytes"`
	// Revision is that up to which the client has everything.
	Revision int64 `json:"revision,omitempty"`
	// Lag is for how long the client has not read what is being sent to it.
	Lag metav1.Duration `json:"lag"`
}

// WatchList is a list of watches.
type WatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Watch `json:"items"`
}

// WebhookStat is how a webhook or policy did since the server started.
type WebhookStat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Kind is webhook or policy; Step is its name as requests have it.
	Kind  string `json:"type"`
	Step  string `json:"step"`
	Phase string `json:"phase"`
	// Calls of a policy count only those that took a while, refused or changed something.
	Calls     int64           `json:"calls"`
	PerMinute float64         `json:"perMinute"`
	P50       metav1.Duration `json:"p50"`
	P99       metav1.Duration `json:"p99"`
	Max       metav1.Duration `json:"max"`
	Refused   int64           `json:"refused"`
	Failed    int64           `json:"failed"` // timeouts are among them
	TimedOut  int64           `json:"timedOut"`
	Ignored   int64           `json:"ignored"` // failures that did not count
	Changed   int64           `json:"changed"`
	LastCall  metav1.Time     `json:"lastCall"`
	// LastFailure is nil if no call failed.
	LastFailure *metav1.Time `json:"lastFailure,omitempty"`
}

// WebhookStatList is a list of statistics.
type WebhookStatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []WebhookStat `json:"items"`
}

// DeprecatedUse is who used a deprecated version of an API.
type DeprecatedUse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Group    string      `json:"group,omitempty"`
	Version  string      `json:"version"`
	Resource string      `json:"resource"`
	User     string      `json:"user,omitempty"`
	Requests int64       `json:"requests"`
	Last     metav1.Time `json:"last"`
}

// DeprecatedUseList is a list of uses.
type DeprecatedUseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []DeprecatedUse `json:"items"`
}
