package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// runNamespaces empties namespaces that are being deleted, and removes their
// finalizer.
func runNamespaces(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(corev1.Resource("namespaces"))
	n := &namespaceCleaner{Config: c, client: cl, remote: remotes.NewClient(cl.Transport()), endpoint: ep, namespaces: engine.IndexOf[*corev1.Namespace](ep)}
	c.work(ctx, "namespace", once(n.clean), follow(n.namespaces, func(c store.Change[*corev1.Namespace]) (string, bool) {
		return c.Name(), c.Now != nil && c.Now.DeletionTimestamp != nil
	}))
}

type namespaceCleaner struct {
	Config
	client     *inprocess.Client
	remote     *remotes.Client
	endpoint   *engine.Endpoint
	namespaces *store.Index[*corev1.Namespace]
}

// errReplaced says that a namespace is gone and that there is another one of its name.
var errReplaced = errors.New("it is another namespace")

// errRemaining says that a namespace must be looked at again.
var errRemaining = errors.New("there is content left")

// clean deletes as much of a namespace as is possible now.
func (n *namespaceCleaner) clean(ctx context.Context, name string) error {
	ns, err := n.namespaces.Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	left := n.empty(ctx, ns)
	if !left.nothing() {
		return errors.Join(errRemaining, n.report(ctx, ns, left))
	}
	if len(ns.Status.Conditions) > 0 {
		// The reported reasons no longer hold.
		if err := n.report(ctx, ns, left); err != nil {
			return err
		}
	}
	return n.finalize(ctx, ns)
}

// leftover is the content of a namespace after an attempt to empty it.
type leftover struct {
	count      int
	kinds      map[string]int // objects, by resource and group
	finalizers map[string]int // objects, by finalizer
	failed     []string
	// undiscovered are the groups and versions of extension servers that have never said what they serve.
	undiscovered []string
}

// empty deletes the content of a namespace and returns what is left. Pods are
// deleted first: the rest stays until all pods are gone, because a terminating
// pod must not outlive the NetworkPolicies that confine it.
func (n *namespaceCleaner) empty(ctx context.Context, ns *corev1.Namespace) leftover {
	left := leftover{kinds: map[string]int{}, finalizers: map[string]int{}}
	pods := corev1.Resource("pods")
	if n.emptyWhere(ctx, ns, &left, func(gr schema.GroupResource) bool { return gr == pods }); left.nothing() {
		n.emptyWhere(ctx, ns, &left, func(gr schema.GroupResource) bool { return gr != pods })
		n.emptyRemotes(ctx, ns, &left)
	}
	return left
}

// still returns an error if a namespace no longer exists: what was read of its
// content before the call may be that of another namespace of its name.
func (n *namespaceCleaner) still(ctx context.Context, ns *corev1.Namespace) error {
	now, err := n.endpoint.GetObject(ctx, "", ns.Name)
	if err == nil && now.GetUID() != ns.UID {
		err = apierrors.NewConflict(n.endpoint.GVR.GroupResource(), ns.Name, errReplaced)
	}
	return err
}

// nothing says that nothing is left and that nothing failed.
func (l *leftover) nothing() bool { return l.count == 0 && len(l.failed) == 0 }

// emptyWhere deletes the objects in a namespace of the selected resources, and
// adds the rest to left.
func (n *namespaceCleaner) emptyWhere(ctx context.Context, ns *corev1.Namespace, left *leftover, in func(schema.GroupResource) bool) {
	seen := map[*engine.Resource]bool{}
	for _, ep := range n.Endpoints() {
		if !ep.R.Namespaced || ep.View() == nil || seen[ep.R] || !in(ep.GVR.GroupResource()) {
			continue
		}
		seen[ep.R] = true
		if err := n.emptyOf(ctx, ns, ep, left); err != nil {
			left.failed = append(left.failed, err.Error())
		}
	}
}

// emptyOf deletes the objects of one resource, and adds the rest to left.
func (n *namespaceCleaner) emptyOf(ctx context.Context, ns *corev1.Namespace, ep *engine.Endpoint, left *leftover) error {
	items, revision, err := n.items(ctx, ep, ns.Name)
	if err != nil || len(items) == 0 {
		return err
	}
	if err := n.still(ctx, ns); err != nil {
		return err
	}
	// The objects that were there by then: a namespace that comes later keeps its own.
	background := metav1.DeletePropagationBackground
	failed := n.client.DeleteAll(ctx, in(ep, ns.Name), revision, &metav1.DeleteOptions{PropagationPolicy: &background})
	if failed = ignoreMissing(failed); failed != nil {
		failed = fmt.Errorf("delete %s: %w", ep.GVR.Resource, failed)
	}
	if items, _, err = n.items(ctx, ep, ns.Name); err != nil {
		return errors.Join(failed, err)
	}
	for _, i := range items {
		left.count++
		left.kinds[ep.GVR.Resource+"."+ep.GVR.Group]++
		if obj, err := ep.Decode(ctx, i); err == nil {
			for _, f := range obj.GetFinalizers() {
				left.finalizers[f]++
			}
		}
	}
	return failed
}

// items returns the newest objects of a resource in a namespace, and their
// revision.
func (n *namespaceCleaner) items(ctx context.Context, ep *engine.Endpoint, name string) (items []*store.Item, revision int64, err error) {
	snap, err := ep.Fresh(ctx)
	if err != nil {
		return nil, 0, err
	}
	err = snap.Ascend(ctx, store.Range{Prefix: name + "/"}, func(i *store.Item) bool {
		items = append(items, i)
		return true
	})
	return items, snap.Rev, err
}

// finalize removes the namespace's finalizer. Once its deletion has begun, nothing
// can undo it.
func (n *namespaceCleaner) finalize(ctx context.Context, ns *corev1.Namespace) error {
	_, err := inprocess.Edit(ctx, n.client, at(n.endpoint, "finalize"), request.Same(ns), func(ns *corev1.Namespace) error {
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return nil
	})
	return ignoreMissing(err)
}

// report writes into the namespace's status what still holds it.
func (n *namespaceCleaner) report(ctx context.Context, ns *corev1.Namespace, left leftover) error {
	now := metav1.NewTime(n.Clock.Now())
	ns = ns.DeepCopy()
	changed := false
	set := func(t corev1.NamespaceConditionType, on bool, reason, message, offReason, offMessage string) {
		want := corev1.NamespaceCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now}
		if !on {
			want.Status, want.Reason, want.Message = corev1.ConditionFalse, offReason, offMessage
		}
		for k := range ns.Status.Conditions {
			if c := &ns.Status.Conditions[k]; c.Type == t {
				if c.Status == want.Status {
					want.LastTransitionTime = c.LastTransitionTime
				}
				changed = changed || *c != want
				*c = want
				return
			}
		}
		changed = true
		ns.Status.Conditions = append(ns.Status.Conditions, want)
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, len(left.undiscovered) > 0, "DiscoveryFailed",
		fmt.Sprintf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s", len(left.undiscovered), strings.Join(left.undiscovered, ", ")),
		"ResourcesDiscovered", "All resources successfully discovered")
	set(corev1.NamespaceDeletionGVParsingFailure, false, "", "", "ParsedGroupVersions", "All legacy kube types successfully parsed")
	set(corev1.NamespaceDeletionContentFailure, len(left.failed) > 0, "ContentDeletionFailed",
		"Failed to delete all resource types, "+fmt.Sprint(len(left.failed))+" remaining: "+strings.Join(left.failed, ", "),
		"ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	set(corev1.NamespaceContentRemaining, len(left.kinds) > 0, "SomeResourcesRemain",
		"Some resources are remaining: "+counts(left.kinds, "%s has %d resource instances"), "ContentRemoved", "All content successfully removed")
	set(corev1.NamespaceFinalizersRemaining, len(left.finalizers) > 0, "SomeFinalizersRemain",
		"Some content in the namespace has finalizers remaining: "+counts(left.finalizers, "%s in %d resource instances"),
		"ContentHasNoFinalizers", "All content-preserving finalizers finished")
	if !changed {
		return nil
	}
	_, err := n.client.Update(ctx, at(n.endpoint, "status"), request.Unchanged(ns), ns)
	return ignoreMissing(err)
}

func counts(m map[string]int, format string) string {
	var parts []string
	for k, v := range m {
		parts = append(parts, fmt.Sprintf(format, k, v))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
