package request

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
)

// trail is what the flight recorder learns of a request on its way, beside the Info and the times of the layers. It is
// part of the request's Latency, so that a request which is not kept allocates nothing for it.
type trail struct {
	// recording is set by the flight recorder's filter before the request goes on. Without it nothing is collected.
	recording bool
	watch     *WatchProgress // of a watch; set like recording
	mu        sync.Mutex
	user, as  user.Info // guarded by mu
	more      *Trail    // guarded by mu; nil until there is something in it
	// credential is with what the user has authenticated.
	credential atomic.Pointer[Credential]
}

// Trail is a copy of what was learned.
type Trail struct {
	// User sent the request; As is the impersonated user, nil if there is none.
	User, As user.Info
	// Reason is that of a refusal, and Fields are the fields that it names. Message may quote what the client or a webhook has
	// sent; it is empty where Secret is set.
	Reason, Message string
	Fields          []string
	// Secret says that the request may have values in it that nobody must be told of.
	Secret bool
	Steps  []Step
	// Changes are those that the request has made. MoreSteps and MoreChanges count what did not fit.
	Changes                []Change
	MoreSteps, MoreChanges int
	// Object is the object in the body of a creation, whose name is not in the path.
	Namespace, Name string
	DryRun          bool
}

// Bounds of a trail: a request that deletes a collection may change very many objects.
const (
	maxSteps   = 256
	maxChanges = 2000
)

// MinStep is the time below which a step that refused nothing is left out.
const MinStep = 20 * time.Microsecond

// Kinds of steps. The name of a conversion is that of the definition; of an authentication it is what the credentials claim.
// An authentication is a step only if it failed.
const (
	StepPlugin         = "plugin"
	StepWebhook        = "webhook"
	StepPolicy         = "policy"
	StepConversion     = "conversion"
	StepAuthentication = "authentication"
)

// Results of steps. A failure was ignored if the failure policy says so, as was a refusal in shadow mode.
const (
	StepAllowed  = "Allowed"
	StepRefused  = "Refused"
	StepFailed   = "Failed"
	StepTimedOut = "TimedOut"
)

// Step is a named part of a request's way.
type Step struct {
	Kind   string
	Name   string
	Phase  string // admit or validate
	Began  time.Time
	Took   time.Duration
	Result string
	// Reason classifies a failure in one word, as ConnectionRefused. It quotes nothing.
	Reason  string
	Ignored bool
	Changed bool
}

// Operations of a Change.
const (
	ChangeCreated  = "Created"
	ChangeUpdated  = "Updated"
	ChangeDeleting = "Deleting" // its deletion has begun
	ChangeDeleted  = "Deleted"
)

// Change is what a request has done to one object.
type Change struct {
	Operation             string
	Group, Resource, Kind string
	Namespace, Name, UID  string
	ResourceVersion       string
	Fields                []FieldChange
	MoreFields            int
}

// FieldChange is a field that has changed. Values are JSON of scalars; they are empty if the field was not there, and
// where Hidden is set.
type FieldChange struct {
	Path   string `json:"path" doc:"The field."`
	Old    string `json:"old,omitempty" doc:"Its value before, shortened; absent if there was none, or if values are hidden."`
	New    string `json:"new,omitempty" doc:"Its value after, shortened; absent if there is none, or if values are hidden."`
	Hidden bool   `json:"hidden,omitempty" doc:"That the values are not told: the object is secret, or the reader may not get it, or has not asked for this request alone, or the server was started again since."`
}

// Record makes the request's trail collect. Only the flight recorder's filter calls it.
func (l *Latency) Record() { l.trail.recording = true }

// Recorded reports whether the flight recorder follows the context's request, for callers to whom collecting is
// expensive.
func Recorded(ctx context.Context) bool {
	l := LatencyFrom(ctx)
	return l != nil && l.trail.recording
}

// Identify records the user of the context's request, and then the user whom that one impersonates.
func Identify(ctx context.Context, u user.Info) {
	l := LatencyFrom(ctx)
	if l == nil || !l.trail.recording {
		return
	}
	l.trail.mu.Lock()
	defer l.trail.mu.Unlock()
	if l.trail.user == nil {
		l.trail.user = u
		return
	}
	l.trail.as = u
}

// Users returns the user of a request and the one whom that user impersonates; nil as long as they are not known.
func (l *Latency) Users() (u, as user.Info) {
	l.trail.mu.Lock()
	defer l.trail.mu.Unlock()
	return l.trail.user, l.trail.as
}

// note changes the trail of the context's request.
func note(ctx context.Context, change func(t *Trail)) {
	l := LatencyFrom(ctx)
	if l == nil || !l.trail.recording {
		return
	}
	l.trail.mu.Lock()
	defer l.trail.mu.Unlock()
	if l.trail.more == nil {
		l.trail.more = &Trail{}
	}
	change(l.trail.more)
}

// AddStep records a step of the context's request. A short step that refused nothing is left out, unless it asked
// another process.
func AddStep(ctx context.Context, s Step) {
	if s.Took < MinStep && s.Result == StepAllowed && s.Kind != StepWebhook && s.Kind != StepConversion && !s.Changed {
		return
	}
	note(ctx, func(t *Trail) {
		if len(t.Steps) >= maxSteps {
			t.MoreSteps++
			return
		}
		t.Steps = append(t.Steps, s)
	})
}

// AddChange records a change that the context's request has made.
func AddChange(ctx context.Context, c Change) {
	note(ctx, func(t *Trail) {
		if len(t.Changes) >= maxChanges {
			t.MoreChanges++
			return
		}
		t.Changes = append(t.Changes, c)
	})
}

// SetRefused records why the context's request was refused.
func SetRefused(ctx context.Context, reason, message string, fields []string) {
	note(ctx, func(t *Trail) {
		t.Reason, t.Fields = reason, fields
		if !t.Secret {
			t.Message = message
		}
	})
}

// SetSecret records that values in the context's request must not be told.
func SetSecret(ctx context.Context) { note(ctx, func(t *Trail) { t.Secret = true }) }

// SetObject records which object the body of a creation is for, and whether the write is a dry run.
func SetObject(ctx context.Context, namespace, name string, dryRun bool) {
	note(ctx, func(t *Trail) { t.Namespace, t.Name, t.DryRun = namespace, name, dryRun })
}

// Trail returns a copy of what was learned so far.
func (l *Latency) Trail() Trail {
	l.trail.mu.Lock()
	defer l.trail.mu.Unlock()
	var t Trail
	if l.trail.more != nil {
		t = *l.trail.more
	}
	t.User, t.As = l.trail.user, l.trail.as
	return t
}

// WatchProgress is how far a watch has come. The goroutine that serves the watch writes it, anybody may read it.
type WatchProgress struct {
	Events, Bytes atomic.Int64
	// Revision is that up to which the client has got everything.
	Revision atomic.Int64
	// Sending is when the write that is under way began, in nanoseconds since 1970; 0: the client has read everything.
	Sending atomic.Int64
}

// Watch returns the progress that the context's watch must keep; nil: nobody asks.
func Watch(ctx context.Context) *WatchProgress {
	l := LatencyFrom(ctx)
	if l == nil {
		return nil
	}
	return l.trail.watch
}

// RecordWatch makes the watch keep its progress. Only the flight recorder's filter calls it, before the request goes on.
func (l *Latency) RecordWatch(p *WatchProgress) { l.trail.recording, l.trail.watch = true, p }

// Began records that a write to the client begins. It may be called on nil, like Ended.
func (p *WatchProgress) Began(clk clock.PassiveClock) {
	if p != nil {
		p.Sending.Store(clk.Now().UnixNano())
	}
}

// Ended records that the client has taken some events, and has all up to a revision.
func (p *WatchProgress) Ended(events, bytes, revision int64) {
	if p == nil {
		return
	}
	p.Events.Add(events)
	p.Bytes.Add(bytes)
	p.Revision.Store(revision)
	p.Sending.Store(0)
}
