// Package forks serves copies of a control plane: at /forks/NAME there is a whole API that began with what the control plane held, and in
// which writes have no effect outside. They are in memory, and end by themselves.
package forks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// Plane is a forked control plane.
type Plane interface {
	http.Handler
	// Start starts it; one that runs is left as it is.
	Start(ctx context.Context) error
	Running() bool
	// Stop ends what runs; what it holds stays.
	Stop() error
	// Changes are the objects that were written since it was forked.
	Changes() []bundlev1.Other
	// Since is the revision that it began with.
	Since() int64
}

// Config is what forks need.
type Config struct {
	// New makes a fork, stopped, of what the control plane holds now, or of what it held at a moment that at names.
	New   func(ctx context.Context, name, at string) (Plane, error)
	Clock clock.WithTicker
	Log   *slog.Logger
}

const (
	// most is how many forks there may be.
	most = 1000
	// defaultLife is how long one lives if nothing else is asked for, and longestLife the longest.
	defaultLife, longestLife = time.Hour, 7 * 24 * time.Hour
	// idle is how long one runs after its last request: what it holds stays, and the next request starts it again.
	idle = time.Minute
	// lookEvery is how often it is looked what has ended.
	lookEvery = 10 * time.Second
)

// Forks are the forks of a control plane.
type Forks struct {
	Config

	mu  sync.Mutex
	all map[string]*fork // by name; guarded by mu
	// over says that the control plane stops; guarded by mu.
	over bool
}

// fork is one of them.
type fork struct {
	Plane
	name          string
	creator       string
	made, expires time.Time

	requests int        // under way; guarded by Forks.mu, as are used, resting and gone
	used     time.Time  // when the last one ended
	resting  bool       // it is being stopped, or was
	gone     bool       // it was removed
	one      sync.Mutex // held while it starts or stops
}

// New makes the forks of a control plane: none. Run must run.
func New(c Config) *Forks { return &Forks{Config: c, all: map[string]*fork{}} }

// resource is what refusals call them.
var resource = schema.GroupResource{Group: "kanzen.io", Resource: "forks"}

// create makes a fork.
func (f *Forks) create(ctx context.Context, name, creator, at string, life time.Duration) (*fork, error) {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is no name for a fork: %s", name, strings.Join(problems, "; ")))
	}
	f.mu.Lock()
	err := f.room(name)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p, err := f.New(ctx, name, at)
	var refusal apierrors.APIStatus
	if errors.As(err, &refusal) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	now := f.Clock.Now()
	made := &fork{Plane: p, name: name, creator: creator, made: now, expires: now.Add(life), used: now}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.room(name); err != nil {
		return nil, err
	}
	f.all[name] = made
	return made, nil
}

// room returns an error if there can be no fork of a name.
func (f *Forks) room(name string) error {
	switch {
	case f.over:
		return apierrors.NewServiceUnavailable("the server stops")
	case f.all[name] != nil:
		return apierrors.NewAlreadyExists(resource, name)
	case len(f.all) >= most:
		return apierrors.NewTooManyRequestsError(fmt.Sprintf("there are %d forks, and there may not be more", most))
	}
	return nil
}

// list returns all, by name.
func (f *Forks) list() (all []*fork) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *fork) int { return strings.Compare(a.name, b.name) })
	return all
}

// remove ends a fork, and requests to it that are under way.
func (f *Forks) remove(name string) error {
	f.mu.Lock()
	gone := f.all[name]
	delete(f.all, name)
	if gone != nil {
		gone.gone = true
	}
	f.mu.Unlock()
	if gone == nil {
		return apierrors.NewNotFound(resource, name)
	}
	return gone.stop()
}

func (p *fork) stop() error {
	p.one.Lock()
	defer p.one.Unlock()
	return p.Stop()
}

// Use has a fork run until done is called, and returns its plane. The error is a refusal.
func (f *Forks) Use(ctx context.Context, name string) (p Plane, done func(), err error) {
	one, err := f.enter(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return one.Plane, func() { f.leave(one) }, nil
}

// enter says that a request begins, and has the fork run until leave is called.
func (f *Forks) enter(ctx context.Context, name string) (*fork, error) {
	f.mu.Lock()
	p := f.all[name]
	if p == nil {
		f.mu.Unlock()
		return nil, apierrors.NewNotFound(resource, name)
	}
	p.requests++
	resting := p.resting
	f.mu.Unlock()
	if !resting && p.Running() {
		return p, nil
	}
	if err := f.wake(ctx, p); err != nil {
		f.leave(p)
		return nil, err
	}
	return p, nil
}

// wake starts a fork, once it does not stop any more.
func (f *Forks) wake(ctx context.Context, p *fork) error {
	p.one.Lock()
	defer p.one.Unlock()
	f.mu.Lock()
	gone := p.gone
	p.resting = false
	f.mu.Unlock()
	if gone { // nobody would stop it
		return apierrors.NewNotFound(resource, p.name)
	}
	if err := p.Start(context.WithoutCancel(ctx)); err != nil { // others may wait for it too
		return apierrors.NewInternalError(err)
	}
	return nil
}

// leave says that a request has ended.
func (f *Forks) leave(p *fork) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.requests--
	p.used = f.Clock.Now()
}

// Run ends forks whose time has come, until ctx ends; then it ends all.
func (f *Forks) Run(ctx context.Context) {
	tick := f.Clock.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			f.look()
		case <-ctx.Done():
			f.end()
			return
		}
	}
}

// look removes those that have expired, and stops those that nobody uses.
func (f *Forks) look() {
	now := f.Clock.Now()
	for _, p := range f.list() {
		switch {
		case now.After(p.expires):
			if err := f.remove(p.name); err != nil {
				f.Log.Warn("a fork did not end in order", "fork", p.name, "error", err)
			}
		case p.Running() && f.unused(p, now):
			if err := f.rest(p, now); err != nil {
				f.Log.Warn("a fork did not stop in order", "fork", p.name, "error", err)
			}
		}
	}
}

func (f *Forks) unused(p *fork, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.idles(now)
}

// idles is unused, for who holds Forks.mu.
func (p *fork) idles(now time.Time) bool { return p.requests == 0 && now.Sub(p.used) > idle }

// rest stops a fork that nobody uses, unless a request has come meanwhile.
func (f *Forks) rest(p *fork, now time.Time) error {
	p.one.Lock()
	defer p.one.Unlock()
	f.mu.Lock()
	p.resting = p.idles(now)
	resting := p.resting
	f.mu.Unlock()
	if !resting {
		return nil
	}
	return p.Stop()
}

func (f *Forks) end() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	var errs []error
	for _, p := range f.list() {
		errs = append(errs, f.remove(p.name))
	}
	if err := errors.Join(errs...); err != nil {
		f.Log.Warn("forks did not end in order", "error", err)
	}
}
