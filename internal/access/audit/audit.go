package audit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Backend stores audit events.
type Backend interface {
	// Process stores events. It returns false if they were not stored and the backend's policy then forbids to serve
	// their request. After the return, the caller may reuse the slice; neither side changes what the events point to.
	Process(events ...*auditv1.Event) bool
	// Close stores pending events and stops. Process is not called after it.
	Close() error
}

// Annotate adds an annotation to an event, in place of one with the same key. A backend may still read the annotations of an earlier stage,
// so an event that has the annotation already is not changed.
func Annotate(e *auditv1.Event, key, value string) {
	if was, ok := e.Annotations[key]; ok && was == value {
		return
	}
	if e.Annotations == nil {
		e.Annotations = map[string]string{}
	}
	e.Annotations[key] = value
}

// Foreign returns an auditor for users of another control plane, with the same policy, backend and metrics. Its events have an annotation,
// which nothing in a request can change or remove. On nil it returns nil.
func (a *Auditor) Foreign(key, value string) *Auditor {
	if a == nil {
		return nil
	}
	own := *a
	own.Backend, own.foreign = annotating{a.Backend, key, value}, true
	return &own
}

// decide returns the policy's decision on a request. The administrators of another control plane choose the names of its users. They could
// take a name for which the policy records little, so there a rule that names users can only add to what the other rules record.
func (a *Auditor) decide(u user.Info, i *request.Info) *decision {
	d := a.Policy.decide(u, i)
	if a.foreign {
		if anybody := a.Policy.decide(nil, i); anybody.level >= d.level {
			return anybody
		}
	}
	return d
}

// annotating annotates the events on their way to a backend.
type annotating struct {
	Backend
	key, value string
}

// Process is part of Backend.
func (b annotating) Process(events ...*auditv1.Event) bool {
	for _, e := range events {
		Annotate(e, b.key, b.value)
	}
	return b.Backend.Process(events...)
}

// Auditor creates the events of requests by a policy.
type Auditor struct {
	Policy  *Policy
	Backend Backend
	Clock   clock.PassiveClock
	Metrics *Metrics

	// foreign says that the users are not those whom the policy's author knows; see decide.
	foreign bool
}

// Record creates the events of one request, stage by stage. Only the request's goroutine uses it.
type Record struct {
	auditor  *Auditor
	decision *decision
	audit    *request.Audit
	received time.Time
	event    auditv1.Event // the event of the last stage
	latency  *request.Latency
	// Status, if set, is the response status unless a handler sets another.
	Status *metav1.Status
}

// Begin matches a request against the policy. It returns nil if the request is not audited.
func (a *Auditor) Begin(r *http.Request) *Record {
	ctx := r.Context()
	audit, i, u := request.AuditFrom(ctx), request.InfoFrom(ctx), request.UserFrom(ctx)
	if audit == nil || i == nil {
		return nil
	}
	d := a.decide(u, i)
	audit.SetLevel(d.level)
	a.Metrics.level(d.level)
	if d.level == request.AuditNone {
		return nil
	}
	rec := &Record{auditor: a, decision: d, audit: audit, received: request.ReceivedFrom(ctx), latency: request.LatencyFrom(ctx)}
	if rec.received.IsZero() {
		rec.received = a.Clock.Now()
	}
	rec.describe(r, u, i)
	return rec
}

// maxUserAgent bounds the recorded User-Agent header, in bytes.
const maxUserAgent = 1024

// describe sets the fields that are known when a request arrives.
func (rec *Record) describe(r *http.Request, u user.Info, i *request.Info) {
	ev := &rec.event
	ev.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: apiVersion}
	ev.Level = levelNames[rec.decision.level]
	ev.AuditID = types.UID(rec.audit.ID)
	ev.RequestURI, ev.Verb = r.URL.RequestURI(), i.Verb
	if u != nil {
		ev.User = userInfo(u)
	}
	ev.SourceIPs = sources(r)
	if ev.UserAgent = r.UserAgent(); len(ev.UserAgent) > maxUserAgent {
		ev.UserAgent = ev.UserAgent[:maxUserAgent] + "...TRUNCATED"
	}
	if i.IsResource {
		ev.ObjectRef = &auditv1.ObjectReference{Namespace: i.Namespace, Name: i.Name, Resource: i.Resource,
			Subresource: i.Subresource, APIGroup: i.Group, APIVersion: i.Version}
	}
	ev.RequestReceivedTimestamp = metav1.NewMicroTime(rec.received)
}

// sources returns the addresses that a request came through; that of its connection is last.
func sources(r *http.Request) []string {
	if r.Header["X-Forwarded-For"] == nil && r.Header["X-Real-Ip"] == nil {
		// Fast path, the usual case: only the connection's own address, in canonical form.
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Is4() {
			return []string{r.RemoteAddr[:strings.LastIndexByte(r.RemoteAddr, ':')]}
		}
	}
	var list []string
	for _, ip := range utilnet.SourceIPs(r) {
		list = append(list, ip.String())
	}
	return list
}

const apiVersion = "audit.k8s.io/v1"

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	if extra := u.GetExtra(); len(extra) > 0 {
		info.Extra = make(map[string]authenticationv1.ExtraValue, len(extra))
		for k, v := range extra {
			info.Extra[k] = v
		}
	}
	return info
}

var levelNames = [...]auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}

// Received records the stage RequestReceived. If it returns false, the request must not be served.
func (rec *Record) Received() bool {
	return rec.process(auditv1.StageRequestReceived, 0, nil)
}

// Started records the stage ResponseStarted of a long-running request.
func (rec *Record) Started(code int) bool {
	return rec.process(auditv1.StageResponseStarted, code, nil)
}

// Complete records the stage ResponseComplete. A code of 0 means that there was no response.
func (rec *Record) Complete(code int, longRunning bool) {
	if code == 0 {
		rec.Status = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
		if longRunning {
			rec.process(auditv1.StageResponseStarted, 0, nil)
		}
	}
	rec.annotateLatency()
	rec.process(auditv1.StageResponseComplete, code, nil)
}

// Panicked records the stage Panic of a request whose handler panicked.
func (rec *Record) Panicked(fault any) {
	rec.process(auditv1.StagePanic, 0, &metav1.Status{Code: http.StatusInternalServerError, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonInternalError, Message: fmt.Sprintf("APIServer panic'd: %v", fault)})
}

// slow is the latency from which an event says where the time went.
const slow = 500 * time.Millisecond

func (rec *Record) annotateLatency() {
	total := rec.auditor.Clock.Since(rec.received)
	if total <= slow || rec.latency == nil || rec.event.Verb == "watch" {
		return
	}
	const prefix = "apiserver.latency.k8s.io/"
	var notes []request.AuditAnnotation
	rec.latency.Each(func(l request.Layer, d time.Duration) {
		notes = append(notes, request.AuditAnnotation{Key: prefix + l.String(), Value: d.String()})
	})
	if len(notes) > 0 {
		rec.audit.Annotate(append(notes, request.AuditAnnotation{Key: prefix + "total", Value: total.String()})...)
	}
}

// process creates the event of a stage and passes it to the backend. status overrides the collected one.
func (rec *Record) process(stage auditv1.Stage, code int, status *metav1.Status) bool {
	if slices.Contains(rec.decision.omit, stage) {
		return true
	}
	ev := &rec.event
	ev.Stage = stage
	ev.StageTimestamp = ev.RequestReceivedTimestamp
	if stage != auditv1.StageRequestReceived {
		ev.StageTimestamp = metav1.NewMicroTime(rec.auditor.Clock.Now())
		rec.fill(ev, code, status)
	}
	rec.auditor.Metrics.event()
	if rec.auditor.Backend.Process(ev) {
		return true
	}
	if stage == auditv1.StageRequestReceived {
		rec.auditor.Metrics.rejected()
	}
	return false
}

// fill copies the facts collected during the request into an event.
func (rec *Record) fill(ev *auditv1.Event, code int, status *metav1.Status) {
	facts := rec.audit.Facts()
	if len(facts.Annotations) > 0 {
		ev.Annotations = make(map[string]string, len(facts.Annotations))
		for _, n := range facts.Annotations {
			ev.Annotations[n.Key] = n.Value
		}
	}
	if u := facts.Impersonated; u != nil {
		info := userInfo(u)
		ev.ImpersonatedUser = &info
		if facts.Constraint != "" {
			ev.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: facts.Constraint}
		}
	}
	rec.refer(ev, &facts)
	ev.ResponseStatus = rec.status(&facts, code, status)
	ev.RequestObject = rec.object(facts.RequestObject)
	ev.ResponseObject = rec.object(facts.ResponseObject)
}

// refer adds to the object reference what the path does not contain.
func (rec *Record) refer(ev *auditv1.Event, f *request.AuditFacts) {
	if f.Name == "" && f.Namespace == "" && f.UID == "" && f.ResourceVersion == "" {
		return
	}
	ref := auditv1.ObjectReference{}
	if ev.ObjectRef != nil {
		ref = *ev.ObjectRef
	}
	for _, p := range []struct{ to, from *string }{{&ref.Namespace, &f.Namespace}, {&ref.Name, &f.Name},
		{(*string)(&ref.UID), &f.UID}, {&ref.ResourceVersion, &f.ResourceVersion}} {
		if *p.to == "" {
			*p.to = *p.from
		}
	}
	ev.ObjectRef = &ref
}

// status returns the response status of an event.
func (rec *Record) status(f *request.AuditFacts, code int, override *metav1.Status) *metav1.Status {
	if override != nil {
		return override
	}
	s := metav1.Status{}
	switch {
	case f.Status != nil:
		s = metav1.Status{Status: f.Status.Status, Message: f.Status.Message, Reason: f.Status.Reason, Details: f.Status.Details, Code: f.Status.Code}
	case rec.Status != nil:
		s = *rec.Status
	case code == 0:
		return nil
	}
	if code != 0 {
		s.Code = int32(code)
	}
	return &s
}

// object wraps JSON as an event holds it.
func (rec *Record) object(data []byte) *runtime.Unknown {
	if data == nil {
		return nil
	}
	if rec.decision.omitManagedFields {
		data = jsonobject.Without(data, "metadata.managedFields", "items.*.metadata.managedFields", "rows.*.object.metadata.managedFields")
	}
	return &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}
}

// Func is a func as a backend.
type Func func(events ...*auditv1.Event)

// Process is part of Backend.
func (f Func) Process(events ...*auditv1.Event) bool {
	f(events...)
	return true
}

// Close is part of Backend.
func (f Func) Close() error { return nil }
