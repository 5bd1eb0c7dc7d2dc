// Package v1alpha1 has the types of the group flightrecorder.kanzen.io, by which the flight recorder is read. Nothing
// of them is stored in etcd. They contain no token, no body and no value of a secret.
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
	metav1.TypeMeta   `json:",inline" doc:"A request to the server that the flight recorder kept. Its name is its number."`
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
	Number   int64            `json:"number" doc:"Orders the requests of a server."`
	Time     metav1.MicroTime `json:"time" doc:"When the request arrived."`
	Duration metav1.Duration  `json:"duration" doc:"How long it took."`
	AuditID  string           `json:"auditID,omitempty" doc:"The audit ID, which the client and the audit log have too."`
	Kept     string           `json:"kept" doc:"Why the request was kept: Write, Refused, Error, Slow (a read that was slow) or Sample."`
	Slow     bool             `json:"slow,omitempty" doc:"That it took longer than --flight-recorder-slow, whyever it was kept. Streams are never slow."`
	Weight   int64            `json:"weight" doc:"For how many requests it stands: more than 1 only for samples of reads."`

	User         string `json:"user,omitempty" doc:"Who asked, as authenticated."`
	Impersonated string `json:"impersonated,omitempty" doc:"As whom the user asked."`
	UserAgent    string `json:"userAgent,omitempty" doc:"The program, as it calls itself."`
	SourceIP     string `json:"sourceIP,omitempty" doc:"The address from which it came."`
	Console      bool   `json:"console,omitempty" doc:"That the console's page sent it. Figures leave such requests out."`

	Verb        string `json:"verb" doc:"What was asked: get, list, watch, create, update, patch, delete, deletecollection; in small letters the method, if it is no resource."`
	Path        string `json:"path,omitempty" doc:"What was asked for, if it is no resource."`
	Group       string `json:"group,omitempty" doc:"The API group."`
	Version     string `json:"version,omitempty" doc:"The API version."`
	Resource    string `json:"resource,omitempty" doc:"The resource, in the plural."`
	Subresource string `json:"subresource,omitempty" doc:"The subresource."`
	Namespace   string `json:"namespace,omitempty" doc:"The namespace."`
	Name        string `json:"name,omitempty" doc:"The name of the object."`
	DryRun      bool   `json:"dryRun,omitempty" doc:"That nothing was to be stored."`

	Code          int32    `json:"code" doc:"The HTTP status of the answer."`
	Reason        string   `json:"reason,omitempty" doc:"The reason in a refusal, as NotFound or Forbidden."`
	Message       string   `json:"message,omitempty" doc:"What a refusal says. It is told only to who was refused, or may get or create the object, and not in a list."`
	Fields        []string `json:"fields,omitempty" doc:"The fields that a refusal names."`
	RequestBytes  int64    `json:"requestBytes,omitempty" doc:"How large the body of the request was."`
	ResponseBytes int64    `json:"responseBytes,omitempty" doc:"How large the body of the answer was."`

	Layers      []Layer  `json:"layers,omitempty" doc:"The time spent in each part of the server."`
	Steps       []Step   `json:"steps,omitempty" doc:"The admission plugins, webhooks, policies and conversions on its way."`
	MoreSteps   int      `json:"moreSteps,omitempty" doc:"How many more steps there were."`
	Changes     []Change `json:"changes,omitempty" doc:"What it did to objects."`
	MoreChanges int      `json:"moreChanges,omitempty" doc:"How many more objects it changed."`
}

// Layer is the time that a request spent in a part of the server. After is when it came there first, counted from the
// request's time; nil if that is not known. It may have been there several times.
type Layer struct {
	Name     string           `json:"name" doc:"The part of the server."`
	After    *metav1.Duration `json:"after,omitempty" doc:"When the request came there first, counted from its arrival; absent if that is not known."`
	Duration metav1.Duration  `json:"duration" doc:"How long it was there, all times together."`
}

// Step is a plugin, webhook, policy or conversion on the way of a request, or an authentication that failed. After is when it began, counted from the request's time.
type Step struct {
	Kind     string          `json:"kind" doc:"What it is: plugin, webhook, policy, conversion (of custom resources by a webhook), or authentication (only if it failed)."`
	Name     string          `json:"name" doc:"Its name; of a webhook CONFIGURATION/WEBHOOK, of a conversion the definition, of an authentication whom the credentials name."`
	Phase    string          `json:"phase,omitempty" doc:"admit, validate or convert."`
	After    metav1.Duration `json:"after" doc:"When it began, counted from the request's arrival."`
	Duration metav1.Duration `json:"duration" doc:"How long it took."`
	Result   string          `json:"result" doc:"What came of it: Allowed, Refused, Failed or TimedOut."`
	Reason   string          `json:"reason,omitempty" doc:"What kind of failure it was, as ConnectionRefused or CertificateExpired; absent if it did not fail."`
	Ignored  bool            `json:"ignored,omitempty" doc:"That its failure, or in shadow mode its refusal, did not count."`
	Changed  bool            `json:"changed,omitempty" doc:"That it changed the object."`
}

// Change is what a request did to an object.
type Change struct {
	Operation       string        `json:"operation" doc:"What was done: Created, Updated, Deleting (its deletion has begun) or Deleted."`
	Group           string        `json:"group,omitempty" doc:"The API group."`
	Resource        string        `json:"resource" doc:"The resource, in the plural."`
	Kind            string        `json:"kind,omitempty" doc:"The kind."`
	Namespace       string        `json:"namespace,omitempty" doc:"The namespace."`
	Name            string        `json:"name" doc:"The name of the object."`
	UID             string        `json:"uid,omitempty" doc:"The UID of the object."`
	ResourceVersion string        `json:"resourceVersion,omitempty" doc:"The version of the object after the change."`
	Fields          []FieldChange `json:"fields,omitempty" doc:"The fields that changed. Values are told only to who may get the object, and not in a list."`
	MoreFields      int           `json:"moreFields,omitempty" doc:"How many more fields changed."`
}

// Watch is a watch that is being served. Its name is its number.
type Watch struct {
	metav1.TypeMeta   `json:",inline" doc:"A watch that is being served. Its name is its number."`
	metav1.ObjectMeta `json:"metadata"`

	User          string           `json:"user,omitempty" doc:"Who watches, as authenticated."`
	Impersonated  string           `json:"impersonated,omitempty" doc:"As whom the user watches."`
	UserAgent     string           `json:"userAgent,omitempty" doc:"The program, as it calls itself."`
	SourceIP      string           `json:"sourceIP,omitempty" doc:"The address from which it came."`
	Group         string           `json:"group,omitempty" doc:"The API group."`
	Version       string           `json:"version,omitempty" doc:"The API version."`
	Resource      string           `json:"resource" doc:"The resource, in the plural."`
	Namespace     string           `json:"namespace,omitempty" doc:"The namespace; absent for all."`
	Name          string           `json:"name,omitempty" doc:"The name of the object, if only one is watched."`
	LabelSelector string           `json:"labelSelector,omitempty" doc:"The label selector."`
	FieldSelector string           `json:"fieldSelector,omitempty" doc:"The field selector."`
	Began         metav1.MicroTime `json:"began" doc:"When it began."`
	Events        int64            `json:"events" doc:"How many events were sent."`
	Bytes         int64            `json:"bytes" doc:"How many bytes were sent."`
	Revision      int64            `json:"revision,omitempty" doc:"The revision up to which the client has everything."`
	Lag           metav1.Duration  `json:"lag" doc:"For how long the client has not read what is being sent to it."`
}

// WatchList is a list of watches.
type WatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Watch `json:"items"`
}

// WebhookStat is how a webhook or policy did since the server started.
type WebhookStat struct {
	metav1.TypeMeta   `json:",inline" doc:"How a webhook or an admission policy did since the server started."`
	metav1.ObjectMeta `json:"metadata"`

	Kind        string          `json:"type" doc:"webhook, policy or conversion."`
	Step        string          `json:"step" doc:"Its name as the steps of requests have it."`
	Phase       string          `json:"phase" doc:"admit, validate or convert."`
	Calls       int64           `json:"calls" doc:"How often it was called; of a policy only when it took a while, refused or changed something."`
	PerMinute   float64         `json:"perMinute" doc:"Calls per minute, now."`
	P50         metav1.Duration `json:"p50" doc:"Half of the calls were faster."`
	P99         metav1.Duration `json:"p99" doc:"99 of 100 calls were faster."`
	Max         metav1.Duration `json:"max" doc:"The slowest call."`
	Refused     int64           `json:"refused" doc:"Writes that it refused."`
	Failed      int64           `json:"failed" doc:"Calls that failed; those that took too long are among them."`
	TimedOut    int64           `json:"timedOut" doc:"Calls that took too long."`
	Ignored     int64           `json:"ignored" doc:"Failures that did not count."`
	Changed     int64           `json:"changed" doc:"Objects that it changed."`
	LastCall    metav1.Time     `json:"lastCall" doc:"When it was called for the last time."`
	LastFailure *metav1.Time    `json:"lastFailure,omitempty" doc:"When a call failed for the last time; absent if none did."`
}

// WebhookStatList is a list of statistics.
type WebhookStatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []WebhookStat `json:"items"`
}

// DeprecatedUse is who used a deprecated version of an API.
type DeprecatedUse struct {
	metav1.TypeMeta   `json:",inline" doc:"Who used a deprecated version of an API."`
	metav1.ObjectMeta `json:"metadata"`

	Group    string      `json:"group,omitempty" doc:"The API group."`
	Version  string      `json:"version" doc:"The deprecated version."`
	Resource string      `json:"resource" doc:"The resource, in the plural."`
	User     string      `json:"user,omitempty" doc:"Who used it."`
	Requests int64       `json:"requests" doc:"How often."`
	Last     metav1.Time `json:"last" doc:"When for the last time."`
}

// DeprecatedUseList is a list of uses.
type DeprecatedUseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []DeprecatedUse `json:"items"`
}
