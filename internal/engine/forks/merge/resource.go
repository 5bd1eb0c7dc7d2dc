package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	v1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Plane answers requests of a user.
type Plane interface {
	Transport(u user.Info) http.RoundTripper
}

// Fork is a fork that runs.
type Fork interface {
	Plane
	// Head is the revision of its last write.
	Head(ctx context.Context) (int64, error)
	// Written are the objects that were written since it was made.
	Written() []bundle.Change
	// Cut is what it began with, and Began a plane that holds that, until done is called.
	Cut() *store.Cut
	Began(ctx context.Context) (p Plane, done func() error, err error)
	// Find returns the resource of a kind; ok is false if none is served.
	Find(kind schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool)
}

// Deps is what merges need of the control plane.
type Deps struct {
	// Use returns a fork that the user may use, and has it run until done is called. The error is a refusal.
	Use func(ctx context.Context, name string) (f Fork, done func(), err error)
	// Carry carries out writes as one.
	Carry func(ctx context.Context, o *metav1.CreateOptions, prepare func(context.Context, bundle.Fork) ([]bundle.Write, error)) (*bundlev1.BundleStatus, error)

	// merging has an element for each merge that is being worked out.
	merging chan struct{}
}

// ofFork is the field of a merge that refusals name.
const ofFork = "spec.fork"

// most is how many objects a merge may write: as many as a bundle.
const most = 500

// reads is how often what was changed in a fork is read anew because the fork was written meanwhile.
const reads = 5

// maxRead is how many bytes of objects a merge reads, on its three sides together. They are all in memory, where they take some times as
// much.
const maxRead = 32 << 20

// maxMerging is how many merges are worked out at a time: each may read that much, for a request that is as cheap for its user as any.
const maxMerging = 2

// Resources returns the resource by which forks are merged.
func Resources(d Deps) []*engine.Resource {
	d.merging = make(chan struct{}, maxMerging)
	return []*engine.Resource{{
		Plural: "merges", Singular: "merge", Kind: "Merge", Hub: v1.GroupVersion(), Verbs: []string{"create"},
		Secret:   true, // there may be secrets among the objects, which refusals quote
		Versions: []*engine.Version{engine.VersionOf[v1.Merge, v1.MergeList](v1.GroupVersion(), nil)},
		Create: func(ctx context.Context, obj engine.Object, check engine.Check, o *metav1.CreateOptions) (engine.Object, error) {
			if err := check(ctx, obj); err != nil {
				return nil, err
			}
			m := obj.(*v1.Merge)
			m.Status = v1.MergeStatus{}
			return m, d.create(ctx, m, o)
		},
	}}
}

func (d Deps) create(ctx context.Context, merge *v1.Merge, o *metav1.CreateOptions) (err error) {
	if merge.Spec.Fork == "" {
		return apierrors.NewBadRequest("spec.fork: name the fork that is merged")
	}
	select {
	case d.merging <- struct{}{}:
		defer func() { <-d.merging }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fork, done, err := d.Use(ctx, merge.Spec.Fork)
	if err != nil {
		return err
	}
	defer done()
	began, end, err := fork.Began(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	defer func() { err = errors.Join(err, end()) }()
	var m *merging
	u := request.UserFrom(ctx)
	status, err := d.Carry(ctx, o, func(ctx context.Context, server bundle.Fork) ([]bundle.Write, error) {
		var err error
		m, err = settled(ctx, fork, func() *merging {
			left := maxRead
			return &merging{base: newSide(began, u, &left), ours: newSide(fork, u, &left), theirs: newSide(server, u, &left), fork: fork, server: server}
		})
		if err != nil {
			return nil, err
		}
		return m.writes, m.refusal(merge.Spec.Force)
	})
	if err != nil {
		return err
	}
	return m.tell(&merge.Status, status)
}

// settled works out a merge of a fork that is not written meanwhile.
func settled(ctx context.Context, fork Fork, begin func() *merging) (*merging, error) {
	for range reads {
		before, err := fork.Head(ctx)
		if err != nil {
			return nil, err
		}
		m := begin()
		if err := m.all(ctx); err != nil {
			return nil, err
		}
		if after, err := fork.Head(ctx); err != nil || after == before {
			return m, err
		}
	}
	return nil, apierrors.NewConflict(v1.GroupVersion().WithResource("merges").GroupResource(), "",
		fmt.Errorf("the fork was written while it was read, %d times in turn; please try again", reads))
}

// tell has the answer say what a bundle has done.
func (m *merging) tell(to *v1.MergeStatus, done *bundlev1.BundleStatus) error {
	to.ResourceVersion, to.Others, to.Overwritten, to.Left = done.ResourceVersion, done.Others, m.conflicts, m.left
	for n, i := range done.Items {
		var named metav1.PartialObjectMetadata
		if err := json.Unmarshal(m.writes[n].Object.Raw, &named); err != nil {
			return err
		}
		o := v1.MergedObject{APIVersion: named.APIVersion, Kind: named.Kind, Namespace: named.Namespace, Name: named.Name, Result: i.Result, Warnings: i.Warnings}
		if i.Result != bundlev1.Deleted {
			o.Object = i.Object
		}
		to.Objects = append(to.Objects, o)
	}
	return nil
}

// side is one of the three sides of a merge, as a user sees it.
type side struct {
	client *http.Client
	left   *int // how many bytes the three sides may still read
}

func newSide(p Plane, u user.Info, left *int) *side {
	return &side{&http.Client{Transport: p.Transport(u)}, left}
}

// get returns what is merged of an object, and its metadata; nil: there is none, or it is being deleted. The error is a refusal, or ends the merge.
func (s *side) get(ctx context.Context, of *bundle.Change) (*unstructured.Unstructured, error) {
	t := inprocess.Target{Resource: schema.GroupVersionResource{Group: of.Group, Version: of.Version, Resource: of.Resource}, Namespace: of.Namespace, Name: of.Name}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process"+t.Path(), nil)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"kanzen-merge"}}
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	*s.left -= len(body)
	switch {
	case err != nil:
		return nil, err
	case *s.left < 0:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("what was changed in the fork has more than %d MB, on all sides together, and cannot be merged at once", maxRead>>20))
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		return nil, bundle.Refusal(resp.StatusCode, body)
	}
	content, err := jsonobject.Unmarshal(body)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if of.StatusApart {
		delete(content, "status")
	}
	return o, nil
}
