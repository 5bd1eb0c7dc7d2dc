package request

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// AuditLevel is how much of a request its audit event contains.
type AuditLevel int32

// The levels of an audit policy, least first.
const (
	AuditNone AuditLevel = iota
	AuditMetadata
	AuditRequest
	AuditRequestResponse
	// AuditUndecided applies before the policy is evaluated: facts are kept in case the policy needs them.
	AuditUndecided
)

// Audit collects facts for the audit event of a request from the parts of the server it passes. It is safe for
// concurrent use. All methods may be called on nil, which means outside of a request.
type Audit struct {
	// ID identifies the request in logs and for the client.
	ID    string
	level atomic.Int32

	mu    sync.Mutex
	facts AuditFacts // guarded by mu
}

// AuditFacts is what an Audit has collected.
type AuditFacts struct {
	// Annotations in order of arrival, with unique keys.
	Annotations []AuditAnnotation
	// From the object in the request body: the path may not contain them.
	Namespace, Name, UID, ResourceVersion string
	// RequestObject and ResponseObject are JSON; nil: there is none.
	RequestObject, ResponseObject []byte
	// Status is the response if it is a Status, an error for instance.
	Status *metav1.Status
	// Impersonated is the impersonated user, nil if there is none; Constraint is the impersonation mode that allowed
	// it.
	Impersonated user.Info
	Constraint   string
}

// AuditAnnotation is a key, which names its source, and a value.
type AuditAnnotation struct{ Key, Value string }

// NewAudit starts the audit of a request at a level: AuditUndecided if there is a policy, else AuditNone.
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

// SetLevel sets the level that the policy decides.
func (a *Audit) SetLevel(l AuditLevel) {
	if a != nil {
		a.level.Store(int32(l))
	}
}

// Wants reports whether the event will contain facts of a level. Callers for whom collecting is expensive check it
// first.
func (a *Audit) Wants(l AuditLevel) bool {
	return a != nil && AuditLevel(a.level.Load()) >= l
}

// AddAuditAnnotation adds to the audit event of the context's request. An existing key keeps its value. A key begins
// with the DNS name of its source ("authorization.k8s.io/decision").
func AddAuditAnnotation(ctx context.Context, key, value string) {
	AuditFrom(ctx).Annotate(AuditAnnotation{key, value})
}

// Annotate is AddAuditAnnotation for several annotations.
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

// Request records the object in the request body. encode returns its JSON and is called only if it is needed; an object
// without JSON is left out.
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

// Response records the response: its status if it is one (nil otherwise), and its JSON, for which encode is called only
// if it is needed.
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

// Impersonate records the impersonated user.
func (a *Audit) Impersonate(u user.Info, constraint string) {
	if !a.Wants(AuditMetadata) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts.Impersonated, a.facts.Constraint = u, constraint
}

// Facts returns the collected facts. Neither the caller nor other code may change what they point to.
func (a *Audit) Facts() AuditFacts {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.facts
	f.Annotations = slices.Clip(f.Annotations)
	return f
}
