package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/access/authn/methods"
	"github.com/kanzen-io/kanzen/internal/api/forked"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/engine/forks/merge"
	"github.com/kanzen-io/kanzen/internal/process/history"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/fork"
)

// This file makes control planes of control planes.

// ForkOptions say what a fork is like.
type ForkOptions struct {
	bundle.ForkOptions
	// Controllers are those that it runs; nil: none.
	Controllers []string
	// Lasting has it write what a server writes besides its controllers, such as the conditions of flow schemas. A bundle's is written by
	// its requests alone.
	Lasting bool
	// At is the moment whose objects it begins with, as ?at= has them; empty: now.
	At string
}

// Fork is a control plane that began with what another one held at a moment, and goes its own way in memory. Its users are the same,
// and so is what authenticates them; of what they may do its own objects tell. It must be stopped before the other one. It is a
// bundle.Fork, a merge.Fork and a forks.Plane.
type Fork struct {
	*Plane
	*forked.Contents
	of *source
}

var _ bundle.Fork = &Fork{}
var _ merge.Fork = &Fork{}

// source is what forks have of the control plane that they are made of.
type source struct {
	*base
	history *history.History // nil: none is kept
	// keys, authenticators and what makes audit events (nil: nothing does) are lent to them.
	keys           *keys.Keys
	authenticators *methods.Set
	audits         *audit.Auditor
}

// origin is what a fork was made of, and for.
type origin struct {
	*source
	options ForkOptions
}

func (o *origin) rehearses() bool { return o != nil && o.options.Rehearsal }

// auditor records by the other one's policy; nil: nothing is recorded.
func (o *origin) auditor() *audit.Auditor {
	if o.audits == nil || o.options.Audit == nil {
		return nil
	}
	own := *o.audits
	own.Backend = audit.Func(o.options.Audit)
	return &own
}

// Fork makes a fork, stopped, of what the control plane holds now.
func (p *Plane) Fork(ctx context.Context, o ForkOptions) (*Fork, error) {
	s := p.serving.Load()
	if s == nil {
		return nil, ErrStopped
	}
	return s.fork(ctx, o)
}

func (s *source) fork(ctx context.Context, o ForkOptions) (*Fork, error) {
	s.objects.MakeViews() // so that the cut has them, as those of custom resources
	for _, ep := range s.objects.Endpoints() {
		ep.View()
	}
	cut, err := s.cut(ctx, o.At)
	if err != nil {
		return nil, err
	}
	return s.forkOf(cut, o), nil
}

// forkOf makes a fork, stopped, of a cut.
func (s *source) forkOf(cut *store.Cut, o ForkOptions) *Fork {
	log := fork.New(cut, s.process.Clock)
	seams := Seams{Webhook: s.seams.Webhook, Kinds: s.seams.Kinds, Common: s.seams.Common, Admit: s.seams.Admit, Made: true, origin: &origin{s, o}}
	p := New(s.cfg.Forked(o.Controllers), s.process.Hosted(log, s.process.Egress), seams)
	return &Fork{p, &forked.Contents{Log: log, Prefix: s.cfg.KeyPrefix(), Objects: p.objects}, s}
}

// cut returns what the control plane holds now, or held at a moment.
func (s *source) cut(ctx context.Context, at string) (*store.Cut, error) {
	objects := s.objects.Store
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

// record records audit events.
func (s *source) record(events ...*auditv1.Event) {
	if s.audits != nil && len(events) > 0 {
		s.audits.Backend.Process(events...)
	}
}

// Controllers are those that the fork runs.
func (f *Fork) Controllers() []string { return f.cfg.Controllers }

// Settle is part of bundle.Fork: the fork is started anew with controllers, as what was written before was written without them.
func (f *Fork) Settle(ctx context.Context) error {
	if err := f.Stop(); err != nil {
		return err
	}
	p := New(f.cfg.Forked(f.of.cfg.Controllers), f.on, f.seams)
	f.Plane, f.Objects = p, p.objects
	if err := f.Start(ctx); err != nil {
		return err
	}
	return bundle.AwaitCalm(ctx, f.on.Clock, f, f.Log.Head)
}

// Adoptable is part of bundle.Fork.
func (f *Fork) Adoptable(ctx context.Context) error {
	return f.of.objects.Store.Adoptable(ctx, f.Log)
}

// Adopt is part of bundle.Fork.
func (f *Fork) Adopt(ctx context.Context) (int64, error) {
	rev, err := f.of.objects.Store.Adopt(ctx, f.Log)
	if err != nil {
		return 0, err
	}
	if h := f.of.history; h != nil {
		h.Wrote(rev, engine.AuthorOf(ctx))
	}
	return rev, f.of.objects.Settle(ctx)
}

// Head is part of merge.Fork. A fork that was deleted meanwhile knows its kinds no more, and would seem to have changed nothing.
func (f *Fork) Head(ctx context.Context) (int64, error) {
	if f.Objects() == nil {
		return 0, apierrors.NewServiceUnavailable("the fork was deleted while it was merged")
	}
	return f.Log.Head(ctx)
}

// Cut is part of merge.Fork.
func (f *Fork) Cut() *store.Cut { return f.Log.Cut() }

// Began is part of merge.Fork.
func (f *Fork) Began(ctx context.Context) (merge.Plane, func() error, error) {
	began := f.of.forkOf(f.Log.Cut(), ForkOptions{ForkOptions: bundle.ForkOptions{Rehearsal: true}})
	return began, began.Stop, began.Start(ctx)
}

// auditFork is the annotation of the audit events of a fork: its name.
const auditFork = "kanzen.io/fork"

// everything is what may be read by those who may make a fork of an earlier moment: in it, everybody has the rights that he had then.
var everything = request.Info{IsResource: true, Verb: "list", Prefix: "apis", Group: "*", Version: "*", Resource: "*"}

// copies are the resources by which several objects are written as one, and by which forks are merged, and the forks that this server serves
// (nil: none). may says whether the user of a request may do something. A fork has none of these.
func (s *source) copies(may func(context.Context, *request.Info) error) (resources []*engine.Resource, served *forks.Forks) {
	if s.seams.origin != nil {
		return nil, nil
	}
	bundles := bundle.Deps{
		Fork: func(ctx context.Context, o bundle.ForkOptions) (bundle.Fork, error) {
			f, err := s.fork(ctx, ForkOptions{ForkOptions: o})
			if err != nil {
				return nil, err
			}
			return f, f.Start(ctx)
		},
		Audit: s.record,
	}
	if s.cfg.Extensions().Has(extensions.Bundles) {
		resources = bundle.Resources(bundles)
	}
	if !s.cfg.Extensions().Has(extensions.Forks) {
		return resources, nil
	}
	served = forks.New(forks.Config{
		New: func(ctx context.Context, name, at string) (forks.Plane, error) {
			if all := everything; at != "" {
				if err := may(ctx, &all); err != nil {
					return nil, err
				}
			}
			return s.fork(ctx, ForkOptions{At: at, Controllers: s.cfg.Controllers, Lasting: true, ForkOptions: bundle.ForkOptions{Rehearsal: true, Audit: func(events ...*auditv1.Event) {
				for _, e := range events {
					audit.Annotate(e, auditFork, name)
				}
				s.record(events...)
			}}})
		},
		Clock: s.process.Clock, Log: s.log,
	})
	return append(resources, merge.Resources(merge.Deps{
		Use: func(ctx context.Context, name string) (merge.Fork, func(), error) {
			// A merge tells what was changed in the fork, as the fork's own path does, and reads of it what can be read below that.
			for _, below := range []string{"", "/*"} {
				if err := may(ctx, &request.Info{Path: forks.Path + "/" + name + below, Verb: "get"}); err != nil {
					return nil, nil, err
				}
			}
			p, done, err := served.Use(ctx, name)
			if err != nil {
				return nil, nil, err
			}
			return p.(*Fork), done, nil
		},
		Carry: bundles.Carry,
	})...), served
}
