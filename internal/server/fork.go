package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/api/aggregator"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/fork"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file makes control planes of control planes.

// ForkOptions say what a fork is like.
type ForkOptions struct {
	// Controllers are those that it runs; nil: none.
	Controllers []string
	// Rehearsal has webhooks called as for dry runs.
	Rehearsal bool
	// Lasting has it write what a server writes besides its controllers, such as the conditions of flow schemas. A bundle's is written by
	// its requests alone.
	Lasting bool
	// At is the moment whose objects it begins with, as ?at= has them; empty: now.
	At string
	// Audit takes the audit events of its requests; nil: they are not recorded.
	Audit func(events ...*auditv1.Event)
	// Changes takes what its requests have changed; nil: that is not recorded.
	Changes func(changes ...request.Change)
}

// Fork is a control plane that began with what another one held at a moment, and goes its own way in memory. Its users are the same,
// and so is what authenticates them; of what they may do its own objects tell. It must be stopped before the other one.
type Fork struct {
	*Plane
	// Log is where its objects are.
	Log *fork.DB
}

// origin is what a fork has of the control plane that it was made of.
type origin struct {
	server  *server
	options ForkOptions
}

func (o *origin) rehearses() bool { return o != nil && o.options.Rehearsal }

// authenticators are lent by the other control plane; nil: it is no fork.
func (o *origin) authenticators() *methods.Set {
	if o == nil {
		return nil
	}
	return o.server.authenticators
}

// auditor records by the other one's policy; nil: nothing is recorded.
func (o *origin) auditor() *audit.Auditor {
	a := o.server.auditor
	if a == nil || o.options.Audit == nil {
		return nil
	}
	own := *a
	own.Backend = audited(o.options.Audit)
	return &own
}

// audited is a func as a backend.
type audited func(events ...*auditv1.Event)

// Process is part of audit.Backend.
func (f audited) Process(events ...*auditv1.Event) bool {
	f(events...)
	return true
}

// Close is part of audit.Backend.
func (f audited) Close() error { return nil }

// Fork makes a fork, stopped, of what the control plane holds now.
func (p *Plane) Fork(ctx context.Context, o ForkOptions) (*Fork, error) {
	s := p.serving.Load()
	if s == nil {
		return nil, ErrStopped
	}
	return s.fork(ctx, o)
}

func (s *server) fork(ctx context.Context, o ForkOptions) (*Fork, error) {
	b := s.base
	for _, ep := range b.objects.Endpoints() {
		ep.View() // so that the cut has it
	}
	cut, err := s.cut(ctx, o.At)
	if err != nil {
		return nil, err
	}
	return s.forkOf(cut, o), nil
}

// forkOf makes a fork, stopped, of a cut.
func (s *server) forkOf(cut *store.Cut, o ForkOptions) *Fork {
	b := s.base
	log := fork.New(cut, b.process.Clock)
	seams := Seams{Webhook: b.seams.Webhook, Kinds: b.seams.Kinds, Common: b.seams.Common, Admit: b.seams.Admit, Made: true, origin: &origin{s, o}}
	return &Fork{New(b.cfg.Forked(o.Controllers), b.process.Hosted(log, b.process.Egress), seams), log}
}

// cut returns what the control plane holds now, or held at a moment.
func (s *server) cut(ctx context.Context, at string) (*store.Cut, error) {
	objects := s.base.objects.Store
	if at == "" {
		return objects.Cut(ctx)
	}
	if s.history == nil {
		return nil, apierrors.NewBadRequest("at: this server keeps no history (--history)")
	}
	rev, err := s.history.Asked(at)
	if err != nil {
		return nil, engine.RefusePast(at, err)
	}
	cut, err := objects.CutAt(ctx, rev)
	return cut, engine.RefusePast(at, err)
}

// aggregates are the checks of aggregation. A fork has none: what is written to an extension server by a fork would be written there.
func (b *base) aggregates(s *aggregator.Server) []debug.Check {
	if b.seams.origin != nil {
		return nil
	}
	return s.Checks()
}

// forkedWork is what runs in a fork: what requests need, and its controllers. It is nobody's server: it has no lease, no addresses and
// no first objects to keep.
func (b *base) forkedWork(p runnables) work {
	w := work{
		storage:   []guard.Task{{Run: p.store.Run}},
		bootstrap: func(context.Context) error { p.steps.Reach(); return nil },
		judged:    p.authorizers.RBAC.Ready(),
		service:   guard.Quiet("", func(ctx context.Context) { <-ctx.Done() }),
		indexes: []guard.Task{
			guard.Quiet("", p.authorizers.Run),
			{Run: p.custom.Run},
			guard.Quiet("", p.steps.Authorizer.SetAfter(p.authorizers.RBAC.Ready())),
			guard.Quiet("", p.steps.Definitions.SetAfter(p.custom.Ready())),
		},
	}
	if p.flow == nil {
		p.steps.FlowConsumer.Set()
	} else {
		w.indexes = append(w.indexes, guard.Task{Run: b.flowConsumer(p.flow, p.steps.FlowConsumer.Set).Run})
	}
	if b.seams.origin.options.Lasting {
		w.upkeep = append(w.upkeep, guard.Task{Name: "dangling flow schemas", Run: b.dangling().Run})
	}
	for _, d := range b.directories {
		w.indexes = append(w.indexes, guard.Quiet("manifests of "+d.Plugin, d.Run))
	}
	return w
}

// Since is the revision that it began with.
func (f *Fork) Since() int64 { return f.Log.Cut().Rev }

// Changes are the objects that were written since it was made. It must run.
func (f *Fork) Changes() (out []bundlev1.Other) {
	for _, c := range f.Written() {
		out = append(out, c.Other)
	}
	return out
}

// Written is Changes, with what was written.
func (f *Fork) Written() (out []bundle.Change) {
	ops, _ := f.Log.Written()
	s := f.serving.Load()
	if s == nil {
		return nil
	}
	for _, op := range ops {
		r, namespace, name := s.base.objects.At(strings.TrimPrefix(op.Key, s.base.cfg.KeyPrefix()))
		if r == nil {
			continue // bookkeeping of the server
		}
		c := changeOf(r, namespace, name)
		c.Value = op.Value
		if asked := f.Log.Asked(op.Key); asked.About == r.String() {
			c.Asked = asked.N
		}
		if _, was := f.Log.Cut().Get(op.Key); op.Delete {
			c.Result = bundlev1.Deleted
		} else if !was {
			c.Result = bundlev1.Created
		}
		out = append(out, c)
	}
	return out
}

// changeOf is the change of an object of a resource.
func changeOf(r *catalog.Resource, namespace, name string) bundle.Change {
	c := bundle.Change{Other: bundlev1.Other{Group: r.Group, Resource: r.Resource, Namespace: namespace, Name: name, Result: bundlev1.Changed}, Kind: r.Kind}
	if len(r.Versions) > 0 {
		c.Version = r.Versions[0]
	}
	if d := r.Described(c.Version); d != nil {
		c.StatusApart = slices.ContainsFunc(d.Subresources, func(s *engine.Subresource) bool { return s.Name == "status" })
	}
	return c
}

// Apart is part of bundle.Fork.
func (f *Fork) Apart(from *store.Cut, of schema.GroupResource, namespace string) (out []bundle.Change) {
	s := f.serving.Load()
	if s == nil {
		return nil
	}
	for r := range s.base.objects.Now().All() {
		prefix := r.Prefix()
		if prefix == "" || namespace != "" && !r.Namespaced || of.Resource != "" && of != r.GroupResource {
			continue
		}
		prefix = s.base.cfg.KeyPrefix() + prefix
		if namespace != "" {
			prefix += namespace + "/"
		}
		was := map[string]int64{}
		below(from, prefix, func(k kv.KeyValue) { was[string(k.Key)] = k.ModRevision })
		below(f.Log.Cut(), prefix, func(k kv.KeyValue) {
			if was[string(k.Key)] == k.ModRevision {
				return
			}
			if r, namespace, name := s.base.objects.At(strings.TrimPrefix(string(k.Key), s.base.cfg.KeyPrefix())); r != nil {
				out = append(out, changeOf(r, namespace, name))
			}
		})
	}
	return out
}

// below passes on the keys of a cut that begin so.
func below(cut *store.Cut, prefix string, yield func(kv.KeyValue)) {
	cut.Ascend(prefix, func(k kv.KeyValue) bool {
		if !strings.HasPrefix(string(k.Key), prefix) {
			return false
		}
		yield(k)
		return true
	})
}

// Fields is part of bundle.Fork.
func (f *Fork) Fields(kind schema.GroupVersionKind) *typed.ParseableType {
	s := f.serving.Load()
	if s == nil {
		return nil
	}
	for _, r := range s.base.objects.Now().Kind(kind) {
		if ep, err := r.Endpoint(kind.Version); err == nil {
			return ep.Fields()
		}
	}
	return nil
}

// Began makes a fork, started, of what the fork began with. It must be stopped before the fork is.
func (f *Fork) Began(ctx context.Context) (*Fork, error) {
	began := f.seams.origin.server.forkOf(f.Log.Cut(), ForkOptions{Rehearsal: true})
	return began, began.Start(ctx)
}

// errRehearsal refuses what would have an effect outside of a fork.
var errRehearsal = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
	Message: "a fork does not do this, because it would have an effect outside of the fork",
}}

// auditFork is the annotation of the audit events of a fork: its name.
const auditFork = "kanzen.io/fork"

// connects are the subresources that reach kubelets, pods and services: from a fork nothing is reached.
func (b *base) connects(to connecting) connecting {
	if b.seams.origin == nil {
		return to
	}
	return func(http.ResponseWriter, *http.Request, *engine.Subresource, runtime.Object) error {
		return errRehearsal
	}
}

type connecting = func(w http.ResponseWriter, r *http.Request, sub *engine.Subresource, options runtime.Object) error

// everything is what may be read by those who may make a fork of an earlier moment: in it, everybody has the rights that he had then.
var everything = request.Info{IsResource: true, Verb: "list", Prefix: "apis", Group: "*", Version: "*", Resource: "*"}

// servesForks says whether the control plane has forks. A fork has none.
func (b *base) servesForks() bool {
	return b.cfg.Extensions().Has(extensions.Forks) && b.seams.origin == nil
}

// forks are the forks that this server serves; s returns the server once it is assembled, and may says whether the user of a request may do
// something. nil: it serves none.
func (b *base) forks(s func() *server, may func(context.Context, *request.Info) error) *forks.Forks {
	if !b.servesForks() {
		return nil
	}
	return forks.New(forks.Config{
		New: func(ctx context.Context, name, at string) (forks.Plane, error) {
			if all := everything; at != "" {
				if err := may(ctx, &all); err != nil {
					return nil, err
				}
			}
			return s().fork(ctx, ForkOptions{At: at, Controllers: b.cfg.Controllers, Lasting: true, Rehearsal: true, Audit: func(events ...*auditv1.Event) {
				for _, e := range events {
					audit.Annotate(e, auditFork, name)
				}
				s().record(events...)
			}})
		},
		Clock: b.process.Clock, Log: b.log,
	})
}

// record records audit events.
func (s *server) record(events ...*auditv1.Event) {
	if s.auditor != nil && len(events) > 0 {
		s.auditor.Backend.Process(events...)
	}
}

// Controllers are those that the fork runs.
func (f *Fork) Controllers() []string { return f.cfg.Controllers }
