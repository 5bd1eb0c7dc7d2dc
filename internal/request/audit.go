package request

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// AuditLevel is how much of a request its audit event tells.
type AuditLevel int32

// The levels of an audit policy, least first.
const (
	AuditNone AuditLevel = iota
	AuditMetadata
	AuditRequest
	AuditRequestResponse
)

type auditKey struct{}

// Audit collects what the parts of the server that a request passes have to
// say in its audit event. It is safe for concurrent use, and all its methods
// may be called on nil, which is outside of a request.
type Audit struct {
	// ID names the request in logs and to the client.
	ID    string
	level atomic.Int32

	mu    sync.Mutex
	facts AuditFacts // guarded by mu
}

// AuditFacts is what an Audit has collected.
type AuditFacts struct {
	// Annotations in order of arrival, no key twice.
	Annotations []AuditAnnotation
}

// AuditAnnotation is a key that names who says it, and a value.
type AuditAnnotation struct{ Key, Value string }

// NewAudit begins the audit of a request at a level.
func NewAudit(id string, level AuditLevel) *Audit {
	a := &Audit{ID: id}
	a.level.Store(int32(level))
	return a
}

// WithAudit returns a context whose request is audited by a.
func WithAudit(ctx context.Context, a *Audit) context.Context {
	return context.WithValue(ctx, auditKey{}, a)
}

// AuditFrom returns the audit of the context's request, nil outside of one.
func AuditFrom(ctx context.Context) *Audit {
	a, _ := ctx.Value(auditKey{}).(*Audit)
	return a
}

// Wants says that something of a level will be in the event. Who would have to
// work for it asks first.
func (a *Audit) Wants(l AuditLevel) bool {
	return a != nil && AuditLevel(a.level.Load()) >= l
}

// AddAuditAnnotation adds to the audit event of the request that ctx belongs
// to. A key that is there keeps its value. Keys begin with the DNS name of who
// says it ("authorization.k8s.io/decision").
func AddAuditAnnotation(ctx context.Context, key, value string) {
	AuditFrom(ctx).Annotate(AuditAnnotation{key, value})
}

// Annotate is AddAuditAnnotation of several.
func (a *Audit) Annotate(annotations ...AuditAnnotation) {
	if !a.Wants(AuditMetadata) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range annotations {
		if !slices.ContainsFunc(a.facts.Annotations, func(o AuditAnnotation) bool { return o.Key == n.Key }) {
			a.facts.Annotations = append(a.facts.Annotations, n)
		}
	}
}

// Facts returns what has been collected.
func (a *Audit) Facts() AuditFacts {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.facts
	f.Annotations = slices.Clip(f.Annotations)
	return f
}
