// Package controlplane implements the parts of a control plane beside its API: the objects that always exist, the lease
// with which a server shows that it is alive, the settings for extension servers, and health checks.
package controlplane

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/controllers/allocation"
	"github.com/kanzen-io/kanzen/internal/controllers/kubernetesservice"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file creates the objects that always exist, and restores missing ones at a later start (some of them at once: Keep). They are written as
// requests of the server itself, with kube-apiserver's field managers.

//go:embed bootstrap.jsonl
var firstObjects []byte

const (
	// ManagerServer is the field manager of the server's own writes.
	ManagerServer = "kube-apiserver"
	managerFlow   = "api-priority-and-fairness-config-producer-v1"
)

// Agent is the User-Agent of the server's own requests.
const Agent = ManagerServer + "/kanzen"

// Itself returns the user of the server's own requests.
func Itself() user.Info {
	return &user.DefaultInfo{Name: "system:apiserver", Groups: []string{user.SystemPrivilegedGroup}}
}

// Bootstrapper creates missing objects.
type Bootstrapper struct {
	*catalog.Raw
	// Client makes the writes, as the server itself.
	Client     *inprocess.Client
	Milestones *Milestones
	Repair     *allocation.Repair
	Service    *kubernetesservice.Controller
	Identity   *Identity
	AuthInfo   *AuthInfo
	// APIServices creates those of the built-in groups and versions.
	APIServices func(ctx context.Context) error
	// Policy is the RBAC policy that every cluster starts with. Its objects are not changed.
	Policy *bootstrap.Objects
	// StorageVersions are told to others; nil: the gate is off.
	StorageVersions *StorageVersions
	// Range keeps the default range of service addresses.
	Range *DefaultRange
	// Made says that everything is there, but perhaps the settings for extension servers, so that nothing is looked at.
	Made  bool
	Clock clock.Clock
	Log   *slog.Logger

	left tasks
}

// task ensures one object, or one part of it.
type task func(ctx context.Context) error

// step is tasks in any order, and what is reached when all are done.
type step struct {
	reached *Milestone
	tasks   []task
	// late says that nobody needs to wait for the tasks: what fails (a webhook refuses everything, perhaps) is tried again
	// by Keep.
	late bool
}

// together bounds the concurrent writes: etcd combines them into one disk write.
const together = 16

// Run creates everything, and sets a milestone after each step.
func (b *Bootstrapper) Run(ctx context.Context) error {
	if b.Made {
		b.Milestones.Reach()
		b.Service.Start(ctx)
		b.left.add(b.AuthInfo.ensure)
		return nil
	}
	static, err := b.static()
	if err != nil {
		return err
	}
	m, slots := b.Milestones, make(chan struct{}, together)
	// Namespaces first: most other objects are in one.
	b.left.take()
	first := []step{{reached: &m.namespaces, tasks: b.namespaces()}}
	if b.StorageVersions != nil { // other writes wait for them, and they belong to the server of the lease
		first = append(first, step{reached: new(Milestone), tasks: []task{b.Identity.renew}, late: true}, step{reached: &m.storageVersions, tasks: b.StorageVersions.tasks(), late: true})
	}
	for _, s := range first {
		if err := b.run(ctx, s, slots); err != nil {
			return err
		}
	}
	start := func(ctx context.Context) error { b.Service.Start(ctx); return nil }
	// Lines wait for the disk side by side, the steps of a line for each other.
	lines := [][]step{
		// A crash may have left addresses without services.
		{{reached: &m.serviceCIDR, tasks: []task{b.Range.Keep}}, {reached: &m.serviceRepair, tasks: []task{b.Repair.Once}}, {reached: &m.kubernetesService, tasks: []task{start}}},
		{{reached: new(Milestone), tasks: b.copies()}, {reached: &m.roles, tasks: b.roles()}},
		{{reached: &m.priorityClasses, tasks: static["PriorityClass"]}},
		{{reached: &m.flowControl, tasks: append(static["PriorityLevelConfiguration"], static["FlowSchema"]...)}},
		{{reached: &m.authenticationInfo, tasks: []task{b.AuthInfo.ensure}, late: true}},
		{{reached: &m.identity, tasks: []task{b.Identity.renew}, late: true}, {reached: &m.leaseCollection, tasks: []task{b.Identity.collect}, late: true}},
		{{reached: &m.tokenTracking, tasks: []task{b.tokenTracking}, late: true}},
		{{reached: new(Milestone), tasks: []task{b.APIServices}}},
	}
	return each(lines, func(steps []step) error {
		for _, s := range steps {
			if err := b.run(ctx, s, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *Bootstrapper) run(ctx context.Context, s step, slots chan struct{}) error {
	err := each(s.tasks, func(t task) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		err := t(ctx)
		if err != nil && s.late {
			b.left.add(t)
			return nil
		}
		return err
	})
	if err == nil {
		s.reached.Set()
	}
	return err
}

// each calls f with all of items at once, and returns all errors.
func each[T any](items []T, f func(T) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	for n, item := range items {
		wg.Go(func() { errs[n] = f(item) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ensure creates an object unless one with its name exists.
func (b *Bootstrapper) ensure(ctx context.Context, gr schema.GroupResource, obj engine.Object, manager string) error {
	ep, err := b.Endpoint(gr)
	if err != nil {
		return err
	}
	if _, err := ep.GetObject(ctx, obj.GetNamespace(), obj.GetName()); !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := b.Client.Managing(manager).Create(ctx, target(ep, obj), obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make %s %s: %w", gr, obj.GetName(), err)
	}
	return nil
}

// target is where an object is created or changed.
func target(ep *engine.Endpoint, obj engine.Object) inprocess.Target {
	return inprocess.Target{Resource: ep.GVR, Namespace: obj.GetNamespace()}
}

func (b *Bootstrapper) namespaces() []task {
	var out []task
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		out = append(out, func(ctx context.Context) error {
			return b.ensure(ctx, schema.GroupResource{Resource: "namespaces"}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, ManagerServer)
		})
	}
	return out
}

// static decodes the embedded objects, by kind.
func (b *Bootstrapper) static() (map[string][]task, error) {
	resources := map[string]schema.GroupResource{
		"PriorityClass":              {Group: "scheduling.k8s.io", Resource: "priorityclasses"},
		"PriorityLevelConfiguration": {Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"},
		"FlowSchema":                 {Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
	}
	out := map[string][]task{}
	lines := json.NewDecoder(bytes.NewReader(firstObjects))
	for {
		var line json.RawMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the bootstrap objects: %w", err)
		}
		var t metav1.TypeMeta
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, err
		}
		gr, manager := resources[t.Kind], ManagerServer
		if gr.Group == "flowcontrol.apiserver.k8s.io" {
			manager = managerFlow
		}
		out[t.Kind] = append(out[t.Kind], func(ctx context.Context) error {
			ep, err := b.Endpoint(gr)
			if err != nil {
				return err
			}
			obj := ep.V.New()
			if err := json.Unmarshal(line, obj); err != nil {
				return err
			}
			return b.ensure(ctx, gr, obj, manager)
		})
	}
}

// roles ensures the bootstrap policy, rule by rule if a role exists.
func (b *Bootstrapper) roles() []task {
	p := b.Policy
	var out []task
	for _, o := range p.ClusterRoles {
		out = append(out, reconcile(b, "clusterroles", o, bootstrap.ReconcileClusterRole))
	}
	for _, o := range p.ClusterRoleBindings {
		out = append(out, reconcile(b, "clusterrolebindings", o, bootstrap.ReconcileClusterRoleBinding))
	}
	for _, o := range p.Roles {
		out = append(out, reconcile(b, "roles", o, bootstrap.ReconcileRole))
	}
	for _, o := range p.RoleBindings {
		out = append(out, reconcile(b, "rolebindings", o, bootstrap.ReconcileRoleBinding))
	}
	return out
}

func reconcile[T engine.Object](b *Bootstrapper, resource string, wanted T, f func(existing, wanted T) (T, bootstrap.Action)) task {
	var again task
	again = func(ctx context.Context) error {
		gr := schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
		ep, err := b.Endpoint(gr)
		if err != nil {
			return err
		}
		obj, err := ep.GetObject(ctx, wanted.GetNamespace(), wanted.GetName())
		if apierrors.IsNotFound(err) {
			return b.ensure(ctx, gr, wanted, ManagerServer)
		}
		if err != nil {
			return err
		}
		changed, action := f(obj.(T), wanted)
		switch action {
		case bootstrap.Nothing:
			return nil
		case bootstrap.Recreate:
			err := ep.DeleteObject(ctx, request.Unchanged(obj), nil)
			if apierrors.IsConflict(err) {
				return again(ctx)
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return b.ensure(ctx, gr, wanted, ManagerServer)
		}
		_, err = b.Client.Update(ctx, target(ep, wanted), request.Unchanged(obj), changed)
		if apierrors.IsConflict(err) {
			return again(ctx) // another server starts too
		}
		return err
	}
	return again
}

// tokenTracking ensures the object with the date since when uses of legacy tokens are recorded; upstream counts from
// the creation of this object. A date that is none begins anew.
func (b *Bootstrapper) tokenTracking(ctx context.Context) error {
	const name, since = "kube-apiserver-legacy-service-account-token-tracking", "since"
	configMaps, today := schema.GroupResource{Resource: "configmaps"}, b.Clock.Now().UTC().Format(time.DateOnly)
	ep, err := b.Endpoint(configMaps)
	if err != nil {
		return err
	}
	existing, err := ep.StoredObject(ctx, metav1.NamespaceSystem, name)
	if apierrors.IsNotFound(err) {
		return b.ensure(ctx, configMaps, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem}, Data: map[string]string{since: today},
		}, ManagerServer)
	}
	if err != nil {
		return err
	}
	if _, err := time.Parse(time.DateOnly, existing.(*corev1.ConfigMap).Data[since]); err == nil {
		return nil
	}
	_, err = inprocess.Edit(ctx, b.Client, target(ep, existing), request.Unchanged(existing), func(m *corev1.ConfigMap) error {
		m.Data = maps.Clone(m.Data)
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[since] = today
		return nil
	})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // somebody else has written it meanwhile; the next look decides
	}
	return err
}
