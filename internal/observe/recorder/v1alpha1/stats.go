package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	metav1.TypeMeta   `json:",inline" doc:"The requests of the last minute that have something in common, estimated from those that were kept: exactly for writes and errors, from a sample for reads. Watches and streams are counted, and have no latency."`
	metav1.ObjectMeta `json:"metadata"`

	By       string `json:"by" doc:"What requests are counted by: All, Verb, Resource, Client, User, Layer, ClientResource or ResourceWebhook."`
	Verb     string `json:"verb,omitempty" doc:"The verb."`
	Group    string `json:"group,omitempty" doc:"The API group."`
	Resource string `json:"resource,omitempty" doc:"The resource, in the plural."`
	Client   string `json:"client,omitempty" doc:"The program."`
	User     string `json:"user,omitempty" doc:"The user."`
	Layer    string `json:"layer,omitempty" doc:"The part of the server."`
	Webhook  string `json:"webhook,omitempty" doc:"The webhook or policy."`

	PerSecond        float64 `json:"perSecond" doc:"Requests per second."`
	RefusedPerSecond float64 `json:"refusedPerSecond,omitempty" doc:"Answers 4xx other than 404, per second."`
	FailedPerSecond  float64 `json:"failedPerSecond,omitempty" doc:"Answers 5xx, per second."`
	BytesPerSecond   float64 `json:"bytesPerSecond,omitempty" doc:"Bytes of answers, per second."`

	WritesPerSecond       float64 `json:"writesPerSecond,omitempty" doc:"Writes that were not refused and did not fail, per second."`
	WrittenBytesPerSecond float64 `json:"writtenBytesPerSecond,omitempty" doc:"Bytes of the bodies of these writes, per second."`
	UnchangedPerSecond    float64 `json:"unchangedPerSecond,omitempty" doc:"Those of them that updated an object, and after which no object that this server stores was another one, per second."`

	P50 metav1.Duration `json:"p50" doc:"Half of the requests were faster."`
	P99 metav1.Duration `json:"p99" doc:"99 of 100 requests were faster."`
	Max metav1.Duration `json:"max" doc:"The slowest request."`
}

// TrafficStatList is a list of statistics.
type TrafficStatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []TrafficStat `json:"items"`
}

// Units of time series.
const (
	PerSecond      = "1/s"
	Seconds        = "s"
	Bytes          = "bytes"
	BytesPerSecond = "bytes/s"
	Count          = ""
)

// TimeSeries is how much there was of something in the last hour.
type TimeSeries struct {
	metav1.TypeMeta   `json:",inline" doc:"How much there was of something in the last hour, since the server started. Requests are estimated as in trafficstats."`
	metav1.ObjectMeta `json:"metadata"`

	Unit   string          `json:"unit,omitempty" doc:"The unit of the values: 1/s, s, bytes, bytes/s; absent for numbers."`
	End    metav1.Time     `json:"end" doc:"The time of the newest value."`
	Step   metav1.Duration `json:"step" doc:"The time between two values."`
	Values []float32       `json:"values" doc:"The values, the oldest one first. A latency of 0 says that there was no request."`
}

// TimeSeriesList is a list of time series.
type TimeSeriesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []TimeSeries `json:"items"`
}

// View is what the server has in memory of a resource.
type View struct {
	metav1.TypeMeta   `json:",inline" doc:"What the server has in memory of a resource."`
	metav1.ObjectMeta `json:"metadata"`

	Group      string `json:"group,omitempty" doc:"The API group."`
	Resource   string `json:"resource" doc:"The resource, in the plural."`
	Loaded     bool   `json:"loaded" doc:"That the objects are in memory. They are loaded when they are first asked for."`
	Objects    int64  `json:"objects" doc:"How many objects there are."`
	Bytes      int64  `json:"bytes" doc:"Bytes of the stored objects."`
	Watchers   int64  `json:"watchers" doc:"Watches of it."`
	Window     int64  `json:"window" doc:"How many events are kept for watches that begin in the past."`
	Events     int64  `json:"events" doc:"Events since the server started."`
	Unreadable int64  `json:"unreadable,omitempty" doc:"Stored objects that cannot be read."`
	Rank       int64  `json:"rank" doc:"1 for the view with the most bytes. The field costliest selects those up to 100."`
	Revision   int64  `json:"revision,omitempty" doc:"The newest revision that it has."`
}

// ViewList is a list of views.
type ViewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []View `json:"items"`
}

// Controller is the work queue of a controller in the server.
type Controller struct {
	metav1.TypeMeta   `json:",inline" doc:"The work queue of a controller in the server."`
	metav1.ObjectMeta `json:"metadata"`

	Waiting  int64           `json:"waiting" doc:"Names that wait."`
	Working  int64           `json:"working" doc:"Names that are worked on."`
	Added    int64           `json:"added" doc:"Names added since the server started."`
	Retries  int64           `json:"retries" doc:"Those of them that were added again after a failure."`
	MeanWait metav1.Duration `json:"meanWait" doc:"How long names waited, on average."`
	MeanWork metav1.Duration `json:"meanWork" doc:"How long the work on one took, on average."`
	Longest  metav1.Duration `json:"longest" doc:"How long the oldest work under way takes."`
}

// ControllerList is a list of controllers.
type ControllerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Controller `json:"items"`
}

// Datastore is an etcd.
type Datastore struct {
	metav1.TypeMeta   `json:",inline" doc:"An etcd."`
	metav1.ObjectMeta `json:"metadata"`

	Error     string          `json:"error,omitempty" doc:"Why it does not answer; absent if it does."`
	Latency   metav1.Duration `json:"latency" doc:"How long it took to ask it for its newest revision."`
	Bytes     int64           `json:"bytes" doc:"Bytes that are allocated."`
	InUse     int64           `json:"inUse" doc:"Bytes of them that hold something; a defragmentation gives back the rest."`
	Quota     int64           `json:"quota,omitempty" doc:"Bytes that it may allocate; absent if that is not known."`
	Revision  int64           `json:"revision" doc:"Its newest revision."`
	Seen      int64           `json:"seen" doc:"The newest revision that this server has seen."`
	Compacted int64           `json:"compacted,omitempty" doc:"The oldest revision that can still be read."`
}

// DatastoreList is a list of datastores.
type DatastoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Datastore `json:"items"`
}

// PlaneStat is what a plane below this server does now.
type PlaneStat struct {
	metav1.TypeMeta   `json:",inline" doc:"What a plane does now, on whichever of the servers that share an etcd it is awake. Sums begin with the start of the server that has it, or had it last."`
	metav1.ObjectMeta `json:"metadata"`

	State      string `json:"state" doc:"Asleep or Awake."`
	Server     string `json:"server,omitempty" doc:"The server on which it is awake; absent if it is asleep, or if there is only one server."`
	Requests   int64  `json:"requests" doc:"Requests that it got, without those that were refused in front of it."`
	Refused    int64  `json:"refused" doc:"Requests and writes that were refused because of its limits or because it was overloaded."`
	Wakes      int64  `json:"wakes" doc:"How often it has woken."`
	Watches    int64  `json:"watches" doc:"Watches and other long-running requests now."`
	Seats      int64  `json:"seats,omitempty" doc:"How many other requests it may serve at a time; absent if it was not awake yet."`
	SeatsInUse int64  `json:"seatsInUse" doc:"Seats that are taken."`
	Waiting    int64  `json:"waiting" doc:"Requests that wait for a seat."`
	Objects    int64  `json:"objects" doc:"Objects of its own that are stored, as they were last counted."`
	Bytes      int64  `json:"bytes" doc:"How large these are."`
	Moves      int64  `json:"moves,omitempty" doc:"How often it went from one server to another in the last hour, as far as the server that answers has seen it."`

	RefusedBy RefusedPlane `json:"refusedBy" doc:"Refused requests and writes by what refused them."`

	// Rank is its place by use; it is for selectors only.
	Rank int64 `json:"-"`
}

// RefusedPlane counts what was refused to a plane.
type RefusedPlane struct {
	RequestsPerSecond int64 `json:"requestsPerSecond" doc:"By the limit of requests a second."`
	Watches           int64 `json:"watches" doc:"By the limit of watches."`
	Storage           int64 `json:"storage" doc:"Writes, by the limits of objects and bytes."`
	Seats             int64 `json:"seats" doc:"Because too many requests waited for a seat."`
	Start             int64 `json:"start" doc:"Because it could not be woken."`
}

// Limits returns how many were refused by limits of the plane.
func (r *RefusedPlane) Limits() int64 { return r.RequestsPerSecond + r.Watches + r.Storage }

// All returns how many were refused.
func (r *RefusedPlane) All() int64 { return r.Limits() + r.Seats + r.Start }

// PlaneStatList is a list of planes.
type PlaneStatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []PlaneStat `json:"items"`
}

// States of a PlaneServer.
const (
	ServerRunning     = "Running"
	ServerLeaving     = "Leaving"
	ServerUnreachable = "Unreachable"
	ServerAway        = "Away"
)

// PlaneServer is one of the servers that share planes.
type PlaneServer struct {
	metav1.TypeMeta   `json:",inline" doc:"One of the servers that share an etcd, and so their planes; its name is the host and port at which the others reach it. Sums begin with its start."`
	metav1.ObjectMeta `json:"metadata"`

	State   string       `json:"state" doc:"Running; Leaving: it is being stopped; Unreachable: it runs, as etcd says, and does not answer the server that is asked; Away: it has crashed, or lost etcd."`
	Since   *metav1.Time `json:"since,omitempty" doc:"Since when nothing was heard of it, if it is Away or Unreachable."`
	Error   string       `json:"error,omitempty" doc:"Why its figures are missing, if it runs."`
	Answers bool         `json:"answers,omitempty" doc:"That it is the server that is asked."`
	Host    string       `json:"host,omitempty" doc:"The name of its machine."`
	Version string       `json:"version,omitempty" doc:"Its version."`
	Started *metav1.Time `json:"started,omitempty" doc:"When its process has started."`

	Awake        int64 `json:"awake" doc:"Planes that are awake on it."`
	Named        int64 `json:"named" doc:"Planes whose spec.server names it."`
	Requests     int64 `json:"requests" doc:"Requests that its planes got."`
	Refused      int64 `json:"refused" doc:"Requests and writes of its planes that were refused."`
	Watches      int64 `json:"watches" doc:"Watches and other long-running requests of its planes now."`
	Passed       int64 `json:"passed" doc:"Requests that it has passed on to the server that has the plane."`
	PassedFailed int64 `json:"passedFailed" doc:"Those of them that the other server did not answer."`
	Memory       int64 `json:"memory,omitempty" doc:"Bytes of memory of its process; absent if that is not known."`
	Moved        int64 `json:"moved" doc:"Planes that came to it in the last hour because their server passed them on or was stopped, as far as the server that is asked has seen it."`
	TakenOver    int64 `json:"takenOver" doc:"Planes that it has taken in the last hour because their server did not run any more, as far as the server that is asked has seen it."`
}

// PlaneServerList is a list of servers.
type PlaneServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []PlaneServer `json:"items"`
}

// PriorityLevel is what a priority level does now.
type PriorityLevel struct {
	metav1.TypeMeta   `json:",inline" doc:"What a priority level does now."`
	metav1.ObjectMeta `json:"metadata"`

	Exempt       bool  `json:"exempt,omitempty" doc:"That its requests are never held back."`
	Seats        int64 `json:"seats" doc:"The seats that it has now; others may have lent or borrowed the difference to the nominal ones."`
	Nominal      int64 `json:"nominal" doc:"Its own seats."`
	SeatsInUse   int64 `json:"seatsInUse" doc:"Seats that are taken."`
	Executing    int64 `json:"executing" doc:"Requests that are being served."`
	Waiting      int64 `json:"waiting" doc:"Requests that wait."`
	Queues       int64 `json:"queues" doc:"Its queues."`
	ActiveQueues int64 `json:"activeQueues" doc:"Queues in which requests wait."`
	QueueLength  int64 `json:"queueLength" doc:"How many requests may wait in a queue."`
	Dispatched   int64 `json:"dispatched" doc:"Requests served since the server started."`
	Rejected     int64 `json:"rejected" doc:"Requests rejected since the server started."`
	TimedOut     int64 `json:"timedOut" doc:"Requests that waited for too long since the server started."`
}

// PriorityLevelList is a list of priority levels.
type PriorityLevelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []PriorityLevel `json:"items"`
}

// Definition is what a CustomResourceDefinition costs this server.
type Definition struct {
	metav1.TypeMeta   `json:",inline" doc:"What a CustomResourceDefinition costs this server."`
	metav1.ObjectMeta `json:"metadata"`

	Group           string          `json:"group" doc:"The API group."`
	Resource        string          `json:"resource" doc:"The resource, in the plural."`
	Versions        []string        `json:"versions" doc:"The served versions."`
	Established     bool            `json:"established" doc:"That it is served."`
	DefinitionBytes int64           `json:"definitionBytes" doc:"Bytes of the definition itself."`
	Compiled        []string        `json:"compiled,omitempty" doc:"The versions whose schema was needed."`
	CompileTime     metav1.Duration `json:"compileTime" doc:"What compiling these schemas took."`
	Checks          int64           `json:"checks" doc:"How many objects were validated since the definition last changed."`
	CheckTime       metav1.Duration `json:"checkTime" doc:"What that took, with the expressions of the schema, which are compiled when they are first needed."`
	Loaded          bool            `json:"loaded" doc:"That its objects are in memory."`
	Objects         int64           `json:"objects" doc:"How many objects there are."`
	Bytes           int64           `json:"bytes" doc:"Bytes of the stored objects."`
	Watchers        int64           `json:"watchers" doc:"Watches of it."`
	Rank            int64           `json:"rank" doc:"1 for the definition whose objects have the most bytes. The field costliest selects those up to 100."`
}

// MeanCheck is how long the check of an object took, on average.
func (d *Definition) MeanCheck() time.Duration {
	return d.CheckTime.Duration / time.Duration(max(1, d.Checks))
}

// DefinitionList is a list of definitions.
type DefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Definition `json:"items"`
}
