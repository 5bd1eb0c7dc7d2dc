package request

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// AuditLevel is how much of a request its audit event tells.
type AuditLevel int32

// The levels of an audit policy, least first.
const (
	AuditNone AuditLevel = iota
	AuditMetadata
	AuditRequest
	AuditRequestResponse
	// AuditUndecided is before the policy has been asked: what is known by
	// then is kept in case it will be wanted.
	AuditUndecided
)

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
	// Of the object that a write brought: what its path may not tell.
	Namespace, Name, UID, ResourceVersion string
	// RequestObject and ResponseObject are JSON; nil: there is none.
	RequestObject, ResponseObject []byte
	// Status is the answer where it is a Status, an error for instance.
	Status *metav1.Status
	// Impersonated is who the request was served as, nil for the user itself;
	// Constraint is the mode of impersonation that allowed it.
	Impersonated user.Info
	Constraint   string
}

// AuditAnnotation is a key that names who says it, and a value.
type AuditAnnotation struct{ Key, Value string }

// NewAudit begins the audit of a request at a level: AuditUndecided where a
// policy will be asked, AuditNone where there is none.
func NewAudit(id string, level AuditLevel) *Audit {
	a := &Audit{ID: id}
	a.SetLevel(level)
	return a
}

// WithAudit returns a context whose request is audited by a.
func WithAudit(ctx context.Context, a *Audit) context.Context {
	return context.WithValue(ctx, auditKey, a)
}

// AuditFrom returns the audit of the context's request, nil outside of one.
func AuditFrom(ctx context.Context) *Audit {
	a, _ := ctx.Value(auditKey).(*Audit)
	return a
}

// AuditIDFrom returns the request's audit ID, empty outside of a request.
func AuditIDFrom(ctx context.Context) string {
	if a := AuditFrom(ctx); a != nil {
		return a.ID
	}
	return ""
}

// SetLevel is what the policy decides, or for a part of the way that a request
// goes on behind the answer to another: nothing.
func (a *Audit) SetLevel(l AuditLevel) {
	if a != nil {
		a.level.Store(int32(l))
	}
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

// Request tells of the object that a write brought. encode makes its JSON and
// is called only if that is wanted; an object that has none is left out.
func (a *Audit) Request(obj metav1.Object, encode func() ([]byte, error)) {
	if !a.Wants(AuditMetadata) {
		return
	}
	var data []byte
	if a.Wants(AuditRequest) {
		data, _ = encode()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if obj != nil {
		a.facts.Namespace, a.facts.Name = obj.GetNamespace(), obj.GetName()
		a.facts.UID, a.facts.ResourceVersion = string(obj.GetUID()), obj.GetResourceVersion()
	}
	a.facts.RequestObject = data
}

// Response tells of the answer: its status if it is one (nil otherwise), and
// its JSON, which encode makes only if it is wanted.
func (a *Audit) Response(status *metav1.Status, encode func() ([]byte, error)) {
	if !a.Wants(AuditMetadata) {
		return
	}
	var data []byte
	if a.Wants(AuditRequestResponse) {
		data, _ = encode()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if status != nil {
		a.facts.Status = status
	}
	a.facts.ResponseObject = data
}

// Impersonate tells whom the request was served as.
func (a *Audit) Impersonate(u user.Info, constraint string) {
	if !a.Wants(AuditMetadata) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts.Impersonated, a.facts.Constraint = u, constraint
}

// Facts returns what has been collected. The caller must not change what it
// points to; nobody else does.
func (a *Audit) Facts() AuditFacts {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.facts
	f.Annotations = slices.Clip(f.Annotations)
	return f
}
