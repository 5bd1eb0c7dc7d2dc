package garbagecollector

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// source is the source of events, the same as kube-controller-manager's.
const source = "garbage-collector-controller"

// warnings remembers the references that were warned of, so that there is one warning for
// each.
type warnings struct {
	mu   sync.Mutex
	seen map[warning]bool
}

// warning is a wrong reference: of an object, to an owner.
type warning struct{ of, to types.UID }

// maxWarnings bounds how many are remembered.
const maxWarnings = 10_000

// first says that a reference was not warned of yet.
func (w *warnings) first(of, to types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil || len(w.seen) >= maxWarnings {
		w.seen = map[warning]bool{}
	}
	id := warning{of, to}
	known := w.seen[id]
	w.seen[id] = true
	return !known
}

// warn writes an event about a reference to an owner that cannot be in the object's namespace.
func (g *Collector) warn(ctx context.Context, n *node, o object, ref *metav1.OwnerReference) {
	if !g.warned.first(n.links.UID, ref.UID) {
		return
	}
	namespace := o.namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.NewTime(g.Clock.Now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", o.object, now.UnixNano()), Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: o.GroupVersion().String(), Kind: o.name,
			Namespace: o.namespace, Name: o.object, UID: n.links.UID,
		},
		Reason: "OwnerRefInvalidNamespace",
		Message: fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			ref.APIVersion, ref.Kind, o.namespace, ref.Name, ref.UID, o.namespace),
		Type: corev1.EventTypeWarning, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: source}, ReportingController: source,
	}
	events := inprocess.Target{Resource: corev1.SchemeGroupVersion.WithResource("events"), Namespace: namespace}
	if _, err := g.Client.Create(ctx, events, event); err != nil && ctx.Err() == nil {
		g.Log.Warn("could not write an event about an owner reference", "object", n.key, "error", err)
	}
}

// scansPerSecond bounds how often a kind is searched for an owner in another namespace. Anybody can name owners that do not
// exist; the search is only for an event that says what is wrong.
const scansPerSecond, scansBurst = 1, 10

// elsewhere says that an owner exists in another namespace than the one of its reference.
func (g *Collector) elsewhere(ctx context.Context, ref *metav1.OwnerReference) (found bool, err error) {
	k := g.ownerKind(ref)
	if k == nil || !k.namespaced || k.remote != nil || !g.scans.AllowN(g.Clock.Now(), 1) {
		return false, nil
	}
	err = g.Store.Scan(ctx, k.prefix, func(key string, _ int64, value []byte) bool {
		if strings.HasSuffix(key, "/"+ref.Name) {
			links, err := engine.LinksOf(value)
			found = err == nil && links.UID == ref.UID
		}
		return !found
	})
	return found, err
}
