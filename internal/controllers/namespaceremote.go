package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// This file deletes the content of namespaces in extension servers.

// remoteTimeout bounds an attempt to empty a namespace of one resource of an extension server.
const remoteTimeout = 10 * time.Second

// remoteLeft is the content of a namespace in one extension server after an attempt.
type remoteLeft struct {
	server     string
	resource   catalog.RemoteResource
	finalizers []string // of all objects
	count      int
	err        error
}

// emptyRemotes deletes the objects of extension servers in a namespace, and adds the rest to left. It asks them in
// parallel, and one that hangs delays only this namespace. An unavailable extension server that has never reported its
// resources delays nothing: it may have no objects in namespaces, as is the case for metrics servers.
func (n *namespaceCleaner) emptyRemotes(ctx context.Context, ns *corev1.Namespace, left *leftover) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var found []remoteLeft
	for r := range n.Remotes() {
		resources := deletable(r)
		if r.Discovery.Freshness == apidiscoveryv2.DiscoveryFreshnessStale && len(r.Discovery.Resources) == 0 {
			left.undiscovered = append(left.undiscovered, fmt.Sprintf("%s: stale GroupVersion discovery: %[1]s (extension server %s)", r, r.Server))
			if !r.Dead {
				left.failed = append(left.failed, fmt.Sprintf("unable to retrieve the resources of %s (extension server %s)", r, r.Server))
			}
		}
		for _, resource := range resources {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
				defer cancel()
				l := n.emptyRemote(ctx, ns, resource)
				l.server = r.Server
				mu.Lock()
				defer mu.Unlock()
				found = append(found, l)
			})
		}
	}
	wg.Wait()
	for _, l := range found {
		gr := l.resource.GroupResource()
		if l.err != nil {
			left.failed = append(left.failed, fmt.Sprintf("delete %s: %v (extension server %s)", gr, l.err, l.server))
		}
		if l.count > 0 {
			left.count += l.count
			left.kinds[l.resource.Resource+"."+l.resource.Group] += l.count
		}
		for _, f := range l.finalizers {
			left.finalizers[f]++
		}
	}
	slices.Sort(left.failed)
}

// deletable returns the resources of an extension server that namespaces contain and that can be deleted.
func deletable(r *catalog.Remote) []catalog.RemoteResource {
	return slices.DeleteFunc(r.Resources(), func(r catalog.RemoteResource) bool {
		deletes := slices.Contains(r.Verbs, "delete") || slices.Contains(r.Verbs, "deletecollection")
		return !r.Namespaced || !deletes || !slices.Contains(r.Verbs, "list")
	})
}

// emptyRemote deletes the objects of one resource. An extension server knows nothing of revisions of ours and may know
// nothing of preconditions, so the namespace is looked at directly before.
func (n *namespaceCleaner) emptyRemote(ctx context.Context, ns *corev1.Namespace, r catalog.RemoteResource) (out remoteLeft) {
	out.resource = r
	if out.err = n.still(ctx, ns); out.err != nil {
		return out
	}
	path := inprocess.Target{Resource: r.GroupVersionResource, Namespace: ns.Name}.Path()
	list := path + "?limit=500"
	background := metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, PropagationPolicy: &background}
	together := slices.Contains(r.Verbs, "deletecollection")
	if together {
		err := n.remote.Do(ctx, "DELETE", path, options, nil)
		if together = !apierrors.IsMethodNotSupported(err); together && ignoreMissing(err) != nil {
			out.err = err
			return out
		}
	}
	var there metav1.PartialObjectMetadataList
	if out.err = ignoreMissing(n.remote.Do(ctx, "GET", list, nil, &there)); out.err != nil {
		return out
	}
	if !together {
		if out.err = n.still(ctx, ns); out.err != nil {
			return out
		}
		for _, o := range there.Items {
			one := *options
			one.Preconditions = &metav1.Preconditions{UID: &o.UID}
			if err := ignoreMissing(n.remote.Do(ctx, "DELETE", path+"/"+o.Name, &one, nil)); err != nil {
				out.err = err
				return out
			}
		}
		there = metav1.PartialObjectMetadataList{}
		if out.err = ignoreMissing(n.remote.Do(ctx, "GET", list, nil, &there)); out.err != nil {
			return out
		}
	}
	out.count = len(there.Items)
	for _, o := range there.Items {
		out.finalizers = append(out.finalizers, o.Finalizers...)
	}
	return out
}
