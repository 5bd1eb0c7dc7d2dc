package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

// manager is who writes the status of definitions, as in kube-apiserver.
const manager = "kube-apiserver"

// controller writes what becomes of definitions into their status: whether
// their names were free, that they are served, that they are going away. All
// of it that can be said at once is one write.
type controller struct {
	*Server
	// changed are definitions to judge, one at a time, because they may want
	// the same names; dying are those to be let go, which takes its time.
	changed, dying *queue.Queue
}

// run works until ctx ends.
func (c *controller) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.changed.Run(ctx, c.reconcile) })
	wg.Go(func() { c.dying.Run(ctx, c.finalize) })
	wg.Wait()
}

// reconcile takes one definition as far as it goes.
func (c *controller) reconcile(ctx context.Context, name string) error {
	var now *apiextensionsv1.CustomResourceDefinition
	rev, err := c.Definitions.Change(ctx, "", name, "status", manager, func(o engine.Object) error {
		now = o.(*apiextensionsv1.CustomResourceDefinition)
		if now.DeletionTimestamp != nil {
			c.dying.Add(name)
			return errUnchanged
		}
		if !c.judge(now) {
			return errUnchanged
		}
		return nil
	})
	if err == nil {
		c.wrote(now, rev)
		// Names that this one has let go of may be what another waits for.
		c.retryConflicts(now.Spec.Group, name)
	}
	return ignorable(err)
}

var errUnchanged = errors.New("nothing to change")

// ignorable drops errors after which the definition comes up again by itself,
// if it is still there.
func ignorable(err error) error {
	if errors.Is(err, errUnchanged) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// object is a definition as the view has it.
func (c *controller) object(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	i, err := c.Definitions.View().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.decode(i)
}

// judge brings the conditions of a definition up to date, and reports whether
// it changed any.
func (c *controller) judge(d *apiextensionsv1.CustomResourceDefinition) bool {
	changed := c.acceptNames(d, c.takenBesides(d))
	changed = c.structural(d) || changed
	changed = c.approved(d) || changed
	return c.establish(d) || changed
}

// takenBesides are the names of the group's other definitions.
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

// establish lets a definition be served whose names are accepted. What is
// established stays so.
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

// retryConflicts looks again at the definitions of a group whose names were
// not free.
func (c *controller) retryConflicts(group, besides string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, d := range c.groups[group] {
		if name != besides && !d.namesAccepted {
			c.changed.Add(name)
		}
	}
}

// errInstances says that custom resources of a deleted definition are left.
var errInstances = errors.New("custom resources are left")

// finalize deletes the custom resources of a definition that is being deleted,
// and then lets go of it.
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
		if err := c.say(ctx, d.Name, condition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
			Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
		}, false); err != nil {
			return ignorable(err)
		}
		if err := c.deleteInstances(ctx, d); err != nil {
			if !errors.Is(err, errInstances) {
				err = errors.Join(err, ignorable(c.say(ctx, d.Name, condition{
					Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
					Reason: "InstanceDeletionFailed", Message: fmt.Sprintf("could not issue all deletes: %v", err),
				}, false)))
			}
			return err
		}
		done.Reason, done.Message = "InstanceDeletionCompleted", "removed all instances"
	}
	return ignorable(c.say(ctx, d.Name, done, true))
}

// say writes one condition down, and with release lets go of the definition.
func (c *controller) say(ctx context.Context, name string, cond condition, release bool) error {
	_, err := c.Definitions.Change(ctx, "", name, "status", manager, func(o engine.Object) error {
		d := o.(*apiextensionsv1.CustomResourceDefinition)
		changed := setCondition(d, cond, c.Clock)
		if release {
			d.Finalizers = slices.DeleteFunc(d.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
		} else if !changed {
			return errUnchanged
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// deleteInstances deletes all custom resources of a definition, past
// admission: what defines them is gone, and nothing may hold them but finalizers.
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
	snap.Ascend("", "", func(i *store.Item) bool { items = append(items, i); return true })
	var errs []error
	for _, i := range items {
		if err := ep.DeleteObject(ctx, i.Namespace(), i.Name(), nil); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if snap, err = ep.Fresh(ctx); err != nil {
		return err
	}
	if snap.Len() > 0 {
		return errInstances
	}
	return nil
}
