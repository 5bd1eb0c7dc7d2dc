package aggregator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
)

// How backends are asked what they serve.
const (
	firstDiscovery = 500 * time.Millisecond
	discoveryEvery = time.Minute
	fetchTimeout   = 5 * time.Second
	// maxDiscovery bounds the documents of a backend, in bytes.
	maxDiscovery = 16 << 20
	// maxResources bounds the resources of one group and version.
	maxResources = 1000
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList;v="

// byGV are discovery documents by group and version.
type byGV map[schema.GroupVersion]apidiscoveryv2.APIVersionDiscovery

// discovered is what a backend last said that it serves.
type discovered struct {
	docs byGV
	etag string
	hash string // of the aggregated document
	// failed are why documents are not of now that were asked for one by one.
	failed map[schema.GroupVersion]error
}

// pathOf returns the path of a group and version.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// refresh asks the backend what it serves, and puts that into the catalog. What it said before stays, as stale, while it
// does not answer. Whether its APIServices are available does not matter: kube-apiserver asks as well, once they are checked.
func (b *backend) refresh(ctx context.Context) error {
	services := slices.DeleteFunc(b.all(), func(v *service) bool { return !v.isChecked() })
	if len(services) == 0 {
		return nil // the probe will wake this loop
	}
	failed := b.rediscover(ctx, services)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.server.announce(b, func(v *service) apidiscoveryv2.APIVersionDiscovery {
		doc, ok := b.found.docs[v.GroupVersion]
		if !ok {
			doc = unknown(v.Version)
		}
		doc.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
		if failed != nil || b.found.failed[v.GroupVersion] != nil || !v.isChecked() {
			doc.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		}
		return doc
	})
	return cmp.Or(failed, errors.Join(slices.Collect(maps.Values(b.found.failed))...))
}

// announce puts the documents of a backend's groups and versions into the catalog, where they differ.
func (s *Server) announce(b *backend, docOf func(v *service) apidiscoveryv2.APIVersionDiscovery) {
	// Under the lock, so that an APIService that leaves at the same time is not put back.
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.Catalog.Now()
	var changed []*catalog.Remote
	for _, v := range b.services {
		have := now.Remote(v.GroupVersion)
		if want := v.remote(docOf(v)); have != nil && !(have.Dead == want.Dead && apiequality.Semantic.DeepEqual(have.Discovery, want.Discovery)) {
			changed = append(changed, want)
		}
	}
	if len(changed) > 0 {
		s.Catalog.PutRemotes(changed...)
	}
}

// rediscover fetches the documents of a backend: all at once, or one by one if it is an old one.
func (b *backend) rediscover(ctx context.Context, services []*service) error {
	header := http.Header{"Accept": {aggregatedType + "v2," + aggregatedType + "v2beta1"}}
	if b.found.etag != "" {
		header.Set("If-None-Match", b.found.etag)
	}
	answer, err := b.get(ctx, "/apis", header, fetchTimeout, maxDiscovery)
	switch {
	case err != nil:
		return err
	case answer.code == http.StatusNotModified && b.found.etag != "":
		return nil
	case answer.code == http.StatusServiceUnavailable:
		return fmt.Errorf("/apis: status %d", answer.code)
	case answer.code == http.StatusOK && strings.Contains(answer.header.Get("Content-Type"), "as=APIGroupDiscoveryList"):
		next := discovered{docs: b.found.docs, etag: answer.header.Get("Etag"), hash: hashOf(answer.body)}
		if next.hash != b.found.hash {
			if next.docs, err = parseAggregated(answer.body); err != nil {
				return err
			}
		}
		b.found = next
		return nil
	}
	return b.rediscoverEach(ctx, services)
}

// rediscoverEach fetches the documents of groups and versions one by one.
func (b *backend) rediscoverEach(ctx context.Context, services []*service) error {
	next, size := discovered{docs: byGV{}, failed: map[schema.GroupVersion]error{}}, 0
	for _, v := range services {
		old, known := b.found.docs[v.GroupVersion]
		if known {
			next.docs[v.GroupVersion] = old
		}
		path := pathOf(v.GroupVersion)
		answer, err := b.get(ctx, path, http.Header{"Accept": {"application/json"}}, fetchTimeout, maxDiscovery-size)
		if err != nil {
			return err // the others would not be answered either
		}
		size += len(answer.body)
		doc, err := parseLegacy(v.GroupVersion, answer)
		if err != nil {
			next.failed[v.GroupVersion] = fmt.Errorf("%s: %w", path, err)
			continue
		}
		next.docs[v.GroupVersion] = doc
	}
	b.found = next
	return nil
}

// parseAggregated reads an aggregated document. v2 and v2beta1 do not differ in JSON.
func parseAggregated(data []byte) (byGV, error) {
	if err := bounded(data); err != nil {
		return nil, fmt.Errorf("aggregated discovery document: %w", err)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("aggregated discovery document: %w", err)
	}
	docs := byGV{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			if len(v.Resources) > maxResources {
				return nil, fmt.Errorf("aggregated discovery document: %s/%s has %d resources", g.Name, v.Version, len(v.Resources))
			}
			complete(v.Resources)
			docs[schema.GroupVersion{Group: g.Name, Version: v.Version}] = v
		}
	}
	return docs, nil
}

// complete fills in what old clients take to be there.
func complete(resources []apidiscoveryv2.APIResourceDiscovery) {
	for i := range resources {
		r := &resources[i]
		if r.ResponseKind == nil {
			r.ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range r.Subresources {
			if r.Subresources[j].ResponseKind == nil {
				r.Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
}

// parseLegacy reads the document of one group and version, in which subresources stand beside resources.
func parseLegacy(gv schema.GroupVersion, a *answer) (apidiscoveryv2.APIVersionDiscovery, error) {
	doc := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version}
	if a.code != http.StatusOK {
		return doc, fmt.Errorf("status %d", a.code)
	}
	if err := bounded(a.body); err != nil {
		return doc, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(a.body, &list); err != nil {
		return doc, err
	}
	if list.GroupVersion != gv.String() {
		return doc, fmt.Errorf("it is of %q", list.GroupVersion)
	}
	if len(list.APIResources) > maxResources {
		return doc, fmt.Errorf("%d resources", len(list.APIResources))
	}
	at := map[string]int{}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if !strings.Contains(r.Name, "/") {
			at[r.Name] = len(doc.Resources)
			doc.Resources = append(doc.Resources, resourceOf(r))
		}
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		parent, sub, ok := strings.Cut(r.Name, "/")
		if !ok {
			continue
		}
		n, found := at[parent]
		if !found {
			n = len(doc.Resources)
			at[parent] = n
			doc.Resources = append(doc.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: parent, Scope: scopeOf(r), ResponseKind: &metav1.GroupVersionKind{}})
		}
		doc.Resources[n].Subresources = append(doc.Resources[n].Subresources,
			apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kindOf(r), Verbs: r.Verbs})
	}
	return doc, nil
}

func resourceOf(r *metav1.APIResource) apidiscoveryv2.APIResourceDiscovery {
	return apidiscoveryv2.APIResourceDiscovery{
		Resource: r.Name, ResponseKind: kindOf(r), Scope: scopeOf(r), SingularResource: r.SingularName,
		Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
	}
}

// kindOf returns the kind of a resource or subresource, with the group and version only if they differ from the document's.
func kindOf(r *metav1.APIResource) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

func scopeOf(r *metav1.APIResource) apidiscoveryv2.ResourceScope {
	if r.Namespaced {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}

var errTooLong = errors.New("the document is too long")
