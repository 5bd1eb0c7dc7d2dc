package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// GroupVersion is a served group and version.
type GroupVersion struct {
	schema.GroupVersion
	GroupPriority, VersionPriority int

	// Resources returns this server's resources in it; it is called when a document about them is generated.
	Resources func() []*engine.Resource
	// Custom marks custom resources: they keep their order, and their kinds have a group and version in the aggregated
	// document.
	Custom bool
	// Remote replaces Resources for another server's version: it is that server's last discovery document, which that
	// server itself serves.
	Remote *apidiscoveryv2.APIVersionDiscovery

	unhashed bool // see Unhashed
}

// Unhashed takes the hashes of storage versions away, but those of custom resources: they have no gate.
func Unhashed(gvs []GroupVersion) []GroupVersion {
	for i := range gvs {
		gvs[i].unhashed = !gvs[i].Custom
	}
	return gvs
}

// Builtin groups the built-in resources by group and version.
func Builtin(resources []*engine.Resource) []GroupVersion {
	byGV := map[schema.GroupVersion][]*engine.Resource{}
	for _, r := range resources {
		for _, v := range r.Versions {
			byGV[v.GroupVersion] = append(byGV[v.GroupVersion], r)
		}
	}
	var gvs []GroupVersion
	for gv, rs := range byGV {
		g, v := Priorities(gv)
		gvs = append(gvs, GroupVersion{
			GroupVersion: gv, GroupPriority: g, VersionPriority: v,
			Resources: func() []*engine.Resource { return rs },
		})
	}
	return gvs
}

// resourceList returns the legacy document: a flat list with "pods/status".
func (gv *GroupVersion) resourceList() *metav1.APIResourceList {
	l := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	l.Kind, l.APIVersion = "APIResourceList", "v1"
	if gv.Group == "" {
		l.APIVersion = "" // empty since before there were groups
	}
	for _, r := range gv.Resources() {
		l.APIResources = append(l.APIResources, gv.apiResources(r)...)
	}
	if !gv.Custom {
		slices.SortFunc(l.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	}
	return l
}

// apiResources returns the resource and then its subresources.
func (gv *GroupVersion) apiResources(r *engine.Resource) []metav1.APIResource {
	declared := r.Declared()
	main := metav1.APIResource{
		Name: r.Plural, SingularName: r.Singular, Namespaced: declared.Namespaced, Kind: gv.kind(r), Verbs: declared.Verbs,
		ShortNames: r.ShortNames, Categories: r.Categories,
	}
	if r.Prefix != "" && !gv.unhashed {
		main.StorageVersionHash = storageVersionHash(r)
	}
	list := []metav1.APIResource{main}
	for n, s := range r.Subresources {
		sub := metav1.APIResource{
			Name: r.Plural + "/" + s.Name, Namespaced: declared.Namespaced, Kind: cmp.Or(s.Kind.Kind, main.Kind), Verbs: declared.Subresources[n].Verbs,
		}
		if s.Kind.Kind != "" && s.Kind.GroupVersion() != gv.GroupVersion {
			sub.Group, sub.Version = s.Kind.Group, s.Kind.Version
		}
		list = append(list, sub)
	}
	return list
}

func (gv *GroupVersion) kind(r *engine.Resource) string {
	for _, v := range r.Versions {
		if v.GroupVersion == gv.GroupVersion && v.Kind != "" {
			return v.Kind
		}
	}
	return r.Kind
}

// aggregated returns the version's part of the aggregated document, in which resources contain their subresources.
func (gv *GroupVersion) aggregated() apidiscoveryv2.APIVersionDiscovery {
	if gv.Remote != nil {
		return *gv.Remote
	}
	v := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, r := range gv.resourceList().APIResources {
		kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if gv.Custom && r.Version == "" {
			kind.Group, kind.Version = gv.Group, gv.Version
		}
		if _, sub, ok := strings.Cut(r.Name, "/"); ok { // included in its resource
			parent := &v.Resources[len(v.Resources)-1]
			parent.Subresources = append(parent.Subresources,
				apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			continue
		}
		scope := apidiscoveryv2.ScopeCluster
		if r.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		v.Resources = append(v.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: kind, Scope: scope, SingularResource: r.SingularName,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	slices.SortFunc(v.Resources, func(a, b apidiscoveryv2.APIResourceDiscovery) int { return cmp.Compare(a.Resource, b.Resource) })
	return v
}

// StorageVersion is the version in which kube-apiserver says that a resource is stored.
func StorageVersion(r *engine.Resource) schema.GroupVersion {
	gv := r.Hub
	switch {
	case r.Stored != nil:
		gv = r.Stored.GroupVersion
	case r.Kind == "CustomResourceDefinition" && gv.Group == "apiextensions.k8s.io":
		gv.Version = "v1beta1" // kube-apiserver says so, and stores v1
	}
	return gv
}

// storageVersionHash returns the hash of the storage version of a resource; storage migrators watch it.
func storageVersionHash(r *engine.Resource) string {
	gv := StorageVersion(r)
	sum := sha256.Sum256([]byte(gv.Group + "/" + gv.Version + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
