package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file keeps the APIServices of what this server serves itself: those of built-in groups and versions are compared
// once, at the start, so that an administrator can change them afterwards; those of custom resources always follow the
// definitions. APIServices without the label belong to users and are left alone.

const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
)

// automatic is an APIService that this server creates.
type automatic struct {
	name, managed string
	spec          apiregistrationv1.APIServiceSpec
}

func automaticOf(gv schema.GroupVersion, groupPriority, versionPriority int, managed string) automatic {
	return automatic{name: gv.Version + "." + gv.Group, managed: managed, spec: apiregistrationv1.APIServiceSpec{
		Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: int32(groupPriority), VersionPriority: int32(versionPriority),
	}}
}

// registerWorkers is the number of groups that are compared at a time.
const registerWorkers = 5

// together bounds the concurrent writes: etcd combines them into one disk write.
const together = 16

// Begin creates the APIServices of built-in groups and versions, and updates or deletes those of earlier starts. It is
// called before Run, once the store can be read.
func (s *Server) Begin(ctx context.Context) error {
	earlier, err := s.earlier(ctx)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(together)
	for name, a := range s.automatic {
		g.Go(func() error { return s.begin(ctx, a, earlier[name]) })
	}
	for name, old := range earlier {
		if _, wanted := s.automatic[name]; !wanted && old.Labels[managedLabel] == onStart {
			g.Go(func() error { return s.delete(ctx, old) })
		}
	}
	return g.Wait()
}

// earlier returns the stored APIServices that concern built-in groups and versions, by name.
func (s *Server) earlier(ctx context.Context) (map[string]*apiregistrationv1.APIService, error) {
	snap, err := s.APIServices.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]*apiregistrationv1.APIService{}
	var failed error
	err = snap.Ascend(ctx, store.Range{}, func(i *store.Item) bool {
		// Most belong to custom resources, and there may be thousands.
		if labels, err := s.APIServices.View().Labels(i); err == nil && labels[managedLabel] != onStart && s.automatic[i.Name()].name == "" {
			return true
		}
		obj, err := s.APIServices.Decode(ctx, i)
		if err != nil {
			failed = err
			return false
		}
		out[i.Name()] = obj.(*apiregistrationv1.APIService)
		return true
	})
	if failed != nil {
		return nil, failed
	}
	return out, err
}

// begin creates an automatic APIService, or updates that of an earlier start.
func (s *Server) begin(ctx context.Context, a automatic, old *apiregistrationv1.APIService) error {
	switch {
	case old == nil:
		return s.create(ctx, a)
	case old.Labels[managedLabel] == "" || sameSpec(&old.Spec, &a.spec):
		return nil
	}
	return s.update(ctx, a, old)
}

// sameSpec compares what automatic APIServices have.
func sameSpec(x, y *apiregistrationv1.APIServiceSpec) bool {
	return x.Service == nil && y.Service == nil && x.Group == y.Group && x.Version == y.Version &&
		x.GroupPriorityMinimum == y.GroupPriorityMinimum && x.VersionPriority == y.VersionPriority
}

func (s *Server) create(ctx context.Context, a automatic) error {
	obj := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: a.name, Labels: map[string]string{managedLabel: a.managed}}, Spec: a.spec}
	if _, err := s.Client.Create(ctx, inprocess.Target{Resource: s.APIServices.GVR}, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make apiservices %s: %w", a.name, err)
	}
	return nil
}

// update corrects an APIService, unless an administrator has taken it over meanwhile.
func (s *Server) update(ctx context.Context, a automatic, seen metav1.Object) error {
	_, err := inprocess.Edit(ctx, s.Client, s.target(""), request.Same(seen), func(obj *apiregistrationv1.APIService) error {
		if obj.Labels[managedLabel] != "" {
			obj.Spec = a.spec
		}
		return nil
	})
	return ignoreReplaced(err)
}

func (s *Server) target(subresource string) inprocess.Target {
	return inprocess.Target{Resource: s.APIServices.GVR, Subresource: subresource}
}

// delete deletes an APIService as it was seen: an administrator may have taken it over meanwhile.
func (s *Server) delete(ctx context.Context, seen metav1.Object) error {
	return ignoreReplaced(s.Client.Delete(ctx, s.target(""), request.Unchanged(seen), nil))
}

// ignoreReplaced drops the errors of a write to an APIService that is gone, or is another one by now, or has changed: the
// index learns of that, and its group is compared again.
func ignoreReplaced(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Register keeps the APIServices of custom resources, and the conditions of all local ones, until ctx ends.
func (s *Server) Register(ctx context.Context) {
	// Before all definitions are known, APIServices would be deleted that are needed.
	for _, ready := range []<-chan struct{}{s.Ready(), s.CustomReady} {
		select {
		case <-ready:
		case <-ctx.Done():
			return
		}
	}
	s.reached.registers.Store(true)
	for r := range s.Catalog.Now().All() {
		if r.Custom {
			s.groups.Add(r.Group)
		}
	}
	s.groups.Run(ctx, registerWorkers, s.register)
}

// errIncomplete means that it is not known whether an APIService is needed.
var errIncomplete = errors.New("a definition of custom resources cannot be read")

// register compares the APIServices of a group with the catalog.
func (s *Server) register(ctx context.Context, group string) error {
	wanted := map[string]automatic{}
	for _, version := range s.Catalog.Now().CustomVersions(group) {
		a := automaticOf(schema.GroupVersion{Group: group, Version: version}, discovery.CustomGroupPriority, discovery.CustomVersionPriority, always)
		wanted[a.name] = a
	}
	var failed []error
	for _, v := range s.ofGroup(group) {
		if v.local && !isLocal(&v.available) {
			failed = append(failed, s.setCondition(ctx, v, local()))
		}
		a, want := wanted[v.name]
		delete(wanted, v.name)
		switch {
		case v.managed != always:
		case !want && s.CustomComplete != nil && !s.CustomComplete():
			failed = append(failed, errIncomplete) // so that the group is compared again
		case !want:
			failed = append(failed, s.delete(ctx, v.meta()))
		case !v.local || v.groupPriority != a.spec.GroupPriorityMinimum || v.versionPriority != a.spec.VersionPriority:
			failed = append(failed, s.update(ctx, a, v.meta()))
		}
	}
	for _, a := range wanted {
		failed = append(failed, s.create(ctx, a))
	}
	return firstError(failed)
}

func firstError(errs []error) error {
	if n := slices.IndexFunc(errs, func(err error) bool { return err != nil }); n >= 0 {
		return errs[n]
	}
	return nil
}

// local is the condition of what this server serves itself.
func local() apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Local", Message: "Local APIServices are always available",
	}
}

func isLocal(c *apiregistrationv1.APIServiceCondition) bool {
	want := local()
	return c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}
