// Package bundle carries out several writes as one. They are carried out on a fork of the control plane, so that each is decided as if
// it were requested alone, and sees the ones before it; what they have written there is then adopted in one transaction.
package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	v1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Fork is a copy of the control plane, on which writes have no effect yet.
type Fork interface {
	// Transport answers requests of a user.
	Transport(u user.Info) http.RoundTripper
	// CatchUp returns once everything that requests depend on reflects the writes before.
	CatchUp(ctx context.Context) error
	// Find returns the resource of a kind; ok is false if none is served.
	Find(kind schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool)
	// Written are the objects that were written.
	Written() []Change
	// Settle has the controllers of the server do what follows, until they have nothing to do. Transports from before answer no more.
	// Errors: ErrUnsettled.
	Settle(ctx context.Context) error
	// Since is the revision that the fork began with.
	Since() int64
	// Fields returns the fields of a kind, as field management has them; nil: nothing is known of them.
	Fields(kind schema.GroupVersionKind) *typed.ParseableType
	// Apart are the objects of a resource ("": all), in a namespace ("": all), which the fork began with, and which are not as they are
	// in a cut.
	Apart(from *store.Cut, of schema.GroupResource, namespace string) []Change
	// Adopt writes what was written on the fork, as one, and returns the revision of it. Errors: store.ErrMoved, store.ErrTooMany.
	Adopt(ctx context.Context) (int64, error)
	// Adoptable returns an error if Adopt could not write what was written, because of what it is. Errors: store.ErrTooMany, store.ErrApart.
	Adoptable(ctx context.Context) error
	// Stop ends it.
	Stop() error
}

// Change is an object that was written on a fork.
type Change struct {
	v1.Other
	Kind, Version string
	// Value is what is stored; nil if it is deleted.
	Value []byte
	// Asked counts the objects that requests from outside have written, in the order of their first such write; 0: only the server itself
	// and its controllers have written this one.
	Asked int
	// StatusApart says that the status of such an object is written through a subresource.
	StatusApart bool
}

func (c *Change) id() id { return id{c.Group, c.Resource, c.Namespace, c.Name} }

// ErrUnsettled means that controllers still had something to do.
var ErrUnsettled = errors.New("controllers were not done in time")

// ForkOptions say what a fork is for.
type ForkOptions struct {
	// Rehearsal has webhooks called as for dry runs.
	Rehearsal bool
	// Audit takes the audit events of its requests, and Changes what they have changed; nil: that is not recorded.
	Audit   func(...*auditv1.Event)
	Changes func(...request.Change)
}

// Deps is what bundles need of the control plane.
type Deps struct {
	// Fork makes a fork, started.
	Fork func(ctx context.Context, o ForkOptions) (Fork, error)
	// Audit records events.
	Audit func(...*auditv1.Event)

	// settling has an element for each dry run whose controllers work.
	settling chan struct{}
}

// maxItems is how many writes a bundle may have.
const maxItems = 500

// maxSettling is how many dry runs have controllers work at a time: each takes all controllers of a server, which look at all of its
// objects first, and a request is otherwise as cheap for its user as any.
const maxSettling = 2

// attempts is how often a bundle is begun anew because somebody else has written what it is about.
const attempts = 8

// Annotations of the audit events of items: the audit ID of the bundle's request, and whether it was written.
const (
	auditBundle  = "bundle.kanzen.io/bundle"
	auditWritten = "bundle.kanzen.io/written"
)

// Resources returns the resource by which bundles are carried out.
func Resources(d Deps) []*engine.Resource {
	d.settling = make(chan struct{}, maxSettling)
	return []*engine.Resource{{
		Plural: "bundles", Singular: "bundle", Kind: "Bundle", Hub: v1.GroupVersion(), Verbs: []string{"create"},
		Secret:   true, // there may be secrets in it, which refusals quote
		Versions: []*engine.Version{engine.VersionOf[v1.Bundle, v1.BundleList](v1.GroupVersion(), nil)},
		Create: func(ctx context.Context, obj engine.Object, check engine.Check, o *metav1.CreateOptions) (engine.Object, error) {
			if err := check(ctx, obj); err != nil {
				return nil, err
			}
			return d.create(ctx, obj.(*v1.Bundle), o)
		},
	}}
}

func (d Deps) create(ctx context.Context, b *v1.Bundle, o *metav1.CreateOptions) (*v1.Bundle, error) {
	writes, err := read(writesOf(&b.Spec), b.Spec.Namespace)
	if err != nil {
		return nil, err
	}
	if b.Spec.Consequences && !admission.IsDryRun(o.DryRun) {
		return nil, apierrors.NewBadRequest("spec.consequences is for dry runs: otherwise controllers act afterwards, by themselves")
	}
	if b.Spec.Consequences {
		select {
		case d.settling <- struct{}{}:
			defer func() { <-d.settling }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	b.Status = v1.BundleStatus{}
	status, err := d.carry(ctx, b.Name, b.Spec.Consequences, o, func(context.Context, Fork) ([]write, error) { return writes, nil })
	if err != nil {
		return nil, err
	}
	b.Status = *status
	return b, nil
}

// Carry carries out writes that depend on what there is: prepare is asked for them again whenever that has changed meanwhile. Its error
// ends it. Without writes nothing is done. Errors are refusals.
func (d Deps) Carry(ctx context.Context, o *metav1.CreateOptions, prepare func(context.Context, Fork) ([]Write, error)) (*v1.BundleStatus, error) {
	return d.carry(ctx, "", false, o, func(ctx context.Context, f Fork) ([]write, error) {
		writes, err := prepare(ctx, f)
		if err != nil || len(writes) == 0 {
			return nil, err
		}
		return read(writes, "")
	})
}

func (d Deps) carry(ctx context.Context, name string, consequences bool, o *metav1.CreateOptions, prepare func(context.Context, Fork) ([]write, error)) (*v1.BundleStatus, error) {
	for range attempts {
		status, err := d.try(ctx, prepare, consequences, o)
		switch {
		case err == nil:
			for _, i := range status.Items {
				for _, w := range i.Warnings {
					request.AddWarning(ctx, w)
				}
			}
			return status, nil
		case errors.Is(err, store.ErrTooMany):
			return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
		case errors.Is(err, store.ErrApart):
			return nil, apierrors.NewBadRequest(err.Error())
		case !errors.Is(err, store.ErrMoved):
			return nil, err
		}
	}
	return nil, apierrors.NewConflict(v1.GroupVersion().WithResource("bundles").GroupResource(), name,
		fmt.Errorf("others have written what it is about, %d times in turn; please try again", attempts))
}

// try carries the writes out on a fork, and adopts them. Errors: store.ErrMoved, store.ErrTooMany, refusals.
func (d Deps) try(ctx context.Context, prepare func(context.Context, Fork) ([]write, error), consequences bool, o *metav1.CreateOptions) (_ *v1.BundleStatus, err error) {
	dryRun := admission.IsDryRun(o.DryRun)
	var events told[*auditv1.Event]
	var changes told[request.Change]
	wants := ForkOptions{Rehearsal: dryRun, Audit: events.add}
	if request.Recorded(ctx) {
		wants.Changes = changes.add
	}
	f, err := d.Fork(ctx, wants)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	adopted := false
	defer func() {
		err = errors.Join(err, f.Stop())
		if errors.Is(err, store.ErrMoved) {
			return // it is tried again, and recorded then
		}
		for _, e := range events.all {
			audit.Annotate(e, auditBundle, request.AuditIDFrom(ctx))
			audit.Annotate(e, auditWritten, strconv.FormatBool(adopted))
		}
		d.Audit(events.all...)
	}()
	writes, err := prepare(ctx, f)
	if err != nil || len(writes) == 0 {
		return &v1.BundleStatus{}, err
	}
	c := carrying{fork: f, client: &http.Client{Transport: f.Transport(request.UserFrom(ctx))}, options: o, items: map[id]string{}, uids: map[types.UID]types.UID{}}
	status, err := c.all(ctx, writes)
	if err != nil {
		return nil, err
	}
	written := f.Written()
	for _, w := range written {
		if _, ok := c.items[w.id()]; !ok {
			status.Others = append(status.Others, w.Other)
		}
	}
	if dryRun {
		if err := f.Adoptable(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case consequences:
		return status, c.settle(ctx, written, status)
	case dryRun:
		return status, nil
	}
	rev, err := f.Adopt(ctx)
	if err != nil {
		return nil, err
	}
	adopted = true
	record(ctx, &changes, rev)
	return status, stamp(status, f.Since(), rev)
}

// told is what a fork tells of its requests: of the items, and of what the server itself does there meanwhile.
type told[T any] struct {
	mu  sync.Mutex
	all []T // guarded by mu until the fork has stopped
}

func (t *told[T]) add(more ...T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, more...)
}

// record has the flight recorder know what was changed on a fork as what the bundle's request has changed, at the revision at which it
// was written.
func record(ctx context.Context, t *told[request.Change], rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all {
		c.ResourceVersion = strconv.FormatInt(rev, 10)
		request.AddChange(ctx, c)
	}
}

// stamp gives what was changed the revision at which it was written.
func stamp(s *v1.BundleStatus, since, rev int64) error {
	s.ResourceVersion = strconv.FormatInt(rev, 10)
	for n := range s.Items {
		raw := &s.Items[n].Object.Raw
		var obj map[string]any
		if err := json.Unmarshal(*raw, &obj); err != nil {
			return err
		}
		meta, _ := obj["metadata"].(map[string]any)
		had, _ := meta["resourceVersion"].(string)
		if !newer(had, since) {
			continue
		}
		meta["resourceVersion"] = s.ResourceVersion
		var err error
		if *raw, err = json.Marshal(obj); err != nil {
			return err
		}
	}
	return nil
}
