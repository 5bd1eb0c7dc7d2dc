package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// controller writes the conditions of definitions: whether their names are accepted, whether they are established,
// whether they are terminating. It makes one write for all changes.
type controller struct {
	*Server
	// changed are definitions to reconcile, one at a time, because several may request the same names; dying are those
	// to finalize, which takes longer.
	changed, dying *queue.Queue
}

// run processes the queues until ctx ends.
func (c *controller) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.changed.Run(ctx, 1, c.reconcile) })
	c.dying.Run(ctx, 1, c.finalize)
	wg.Wait()
}

// reconcile updates the status of one definition as far as possible.
func (c *controller) reconcile(ctx context.Context, name string) error {
	seen, err := c.object(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if seen.DeletionTimestamp != nil {
		c.dying.Add(name) // meanwhile it may be given other names
	}
	if !c.judge(seen) {
		return nil
	}
	stored, err := c.edit(ctx, seen, func(d *apiextensionsv1.CustomResourceDefinition) { c.judge(d) })
	if err != nil {
		return ignorable(err)
	}
	rev, err := strconv.ParseInt(stored.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	c.wrote(stored, rev)
	// Another definition may be waiting for names that this one has released.
	c.retryConflicts(stored.Spec.Group, name)
	return nil
}

// edit changes the status of a definition, and returns what was stored.
func (c *controller) edit(ctx context.Context, seen *apiextensionsv1.CustomResourceDefinition, f func(d *apiextensionsv1.CustomResourceDefinition)) (*apiextensionsv1.CustomResourceDefinition, error) {
	status := inprocess.Target{Resource: c.Definitions.GVR, Subresource: "status"}
	return inprocess.Edit(ctx, c.Client, status, request.Same(seen), func(d *apiextensionsv1.CustomResourceDefinition) error {
		f(d)
		return nil
	})
}

// ignorable drops errors after which the definition is queued again, if it still exists.
func ignorable(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// object returns a definition from the view.
func (c *controller) object(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	i, err := c.Definitions.View().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.decode(i)
}

// judge updates the conditions of a definition, and reports whether it changed any.
func (c *controller) judge(d *apiextensionsv1.CustomResourceDefinition) bool {
	changed := c.acceptNames(d, c.takenBesides(d))
	changed = c.structural(d) || changed
	changed = c.approved(d) || changed
	return c.establish(d) || changed
}

// takenBesides returns the names of the group's other definitions.
func (c *controller) takenBesides(d *apiextensionsv1.CustomResourceDefinition) taken {
	t := taken{map[string]bool{}, map[string]bool{}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	this := &definition{uid: d.UID, created: d.CreationTimestamp.Time}
	young := this.young(c.Clock.Now())
	for name, other := range c.groups[d.Spec.Group] {
		if name != d.Name {
			t.add(other.accepted, young && other.cameBefore(this))
		}
	}
	return t
}

// establish sets Established on a definition whose names are accepted. The condition is never removed.
func (c *controller) establish(d *apiextensionsv1.CustomResourceDefinition) bool {
	if !isTrue(d, apiextensionsv1.NamesAccepted) || isTrue(d, apiextensionsv1.Established) {
		return false
	}
	e := condition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if w := d.Spec.Conversion; w != nil && w.Webhook != nil && w.Webhook.ClientConfig != nil && !validBundle(w.Webhook.ClientConfig.CABundle) {
		e.Status, e.Reason, e.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid"
	}
	return setCondition(d, e, c.Clock)
}

// retryConflicts queues the definitions of a group whose names were not accepted.
func (c *controller) retryConflicts(group, besides string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, d := range c.groups[group] {
		if name != besides && !d.namesAccepted {
			c.changed.Add(name)
		}
	}
}

// errInstances means that a deleted definition still has custom resources.
var errInstances = errors.New("custom resources are left")

// finalize deletes the custom resources of a definition that is being deleted, and then removes its finalizer.
func (c *controller) finalize(ctx context.Context, name string) error {
	d, err := c.object(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.DeletionTimestamp == nil || !slices.Contains(d.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return nil
	}
	done := condition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse,
		Reason: "NeverEstablished", Message: "resource was never established",
	}
	switch {
	case c.builtin(d.Spec.Group, d.Spec.Names.Plural):
		done.Reason, done.Message = "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"
	case isTrue(d, apiextensionsv1.Established):
		if err := c.say(ctx, d, condition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		}, false); err != nil {
			return ignorable(err)
		}
		if err := c.deleteInstances(ctx, d); err != nil {
			if !errors.Is(err, errInstances) {
				err = errors.Join(err, ignorable(c.say(ctx, d, condition{
					Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
					Reason: "InstanceDeletionFailed", Message: fmt.Sprintf("could not issue all deletes: %v", err),
				}, false)))
			}
			return err
		}
		done.Reason, done.Message = "InstanceDeletionCompleted", "removed all instances"
	}
	return ignorable(c.say(ctx, d, done, true))
}

// say sets one condition, and with release removes the finalizer.
func (c *controller) say(ctx context.Context, seen *apiextensionsv1.CustomResourceDefinition, cond condition, release bool) error {
	_, err := c.edit(ctx, seen, func(d *apiextensionsv1.CustomResourceDefinition) {
		setCondition(d, cond, c.Clock)
		if release {
			d.Finalizers = slices.DeleteFunc(d.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
		}
	})
	return err
}

// instance is a custom resource that was listed, or whatever has its name if it cannot be read.
func instance(i *store.Item) request.Which {
	links, err := engine.LinksOf(i.Value())
	if err != nil {
		return request.Named(i.Namespace(), i.Name())
	}
	return request.Same(&metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), UID: links.UID})
}

// deleteInstances deletes all custom resources of a definition without admission: after the definition's deletion only
// finalizers may keep them.
func (c *controller) deleteInstances(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition) error {
	ep, err := c.endpointToDelete(d.Name)
	if err != nil {
		return err
	}
	snap, err := ep.Fresh(ctx)
	if err != nil {
		return err
	}
	var items []*store.Item
	err = snap.Ascend(ctx, store.Range{}, func(i *store.Item) bool { items = append(items, i); return true })
	if err != nil {
		return err
	}
	// If the definition is still there, they are its resources, and not those of another one of its name.
	now, err := c.Definitions.GetObject(ctx, "", d.Name)
	if err != nil || now.GetUID() != d.UID {
		return errors.Join(errInstances, err)
	}
	var errs []error
	for _, i := range items {
		if err := ep.DeleteObject(ctx, instance(i), nil); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if snap, err = ep.Fresh(ctx); err != nil {
		return err
	}
	left, err := snap.Count(ctx, store.Range{})
	if err == nil && left > 0 {
		err = errInstances
	}
	return err
}
