package discovery

import (
	"cmp"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	netutils "k8s.io/utils/net"
)

// Set is the discovery documents of one state of the server. It is immutable.
type Set struct {
	addresses []metav1.ServerAddressByClientCIDR
	groups    map[string]*group
	order     []*group // without the core group
	apis      *document
	// The aggregated documents of /api and /apis.
	coreAggregated, apisAggregated *document
	peers                          Peers     // nil: there is no other server
	merged                         *document // that of /apis of all servers of the cluster
}

// Peers are the other servers of the cluster.
type Peers interface {
	// Merge returns what all servers serve, of which local is this server's part.
	Merge(local []apidiscoveryv2.APIGroupDiscovery) []apidiscoveryv2.APIGroupDiscovery
	// Asked is told of each request for an aggregated document: that of this server alone, or that of all servers.
	Asked(alone bool)
}

// group is one API group with its versions sorted by priority. Its documents are small and generated for each request:
// with thousands of groups of custom resources this costs less than keeping them.
type group struct {
	name     string
	priority int
	versions []GroupVersion
}

// builtin reports whether the group is built in: the server itself serves its paths.
func (g *group) builtin() bool { _, ok := priorities[g.name]; return ok }

// New creates the set of these group-versions. addresses tell clients of /api where to find the server; each client
// gets the address for its network.
func New(addresses []metav1.ServerAddressByClientCIDR, gvs []GroupVersion) *Set {
	s := &Set{addresses: addresses, groups: make(map[string]*group, len(gvs))}
	for _, gv := range gvs {
		g := s.groups[gv.Group]
		if g == nil {
			g = &group{name: gv.Group}
			s.groups[gv.Group] = g
			if gv.Group != "" {
				s.order = append(s.order, g)
			}
		}
		g.add(gv)
	}
	for _, g := range s.groups {
		slices.SortFunc(g.versions, func(a, b GroupVersion) int {
			return cmp.Or(cmp.Compare(b.VersionPriority, a.VersionPriority),
				version.CompareKubeAwareVersionStrings(b.Version, a.Version))
		})
	}
	slices.SortFunc(s.order, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
	})
	s.apis = newDocument(func() runtime.Object { return s.groupList() })
	s.apisAggregated = newDocument(func() runtime.Object { return aggregate(s.order) })
	if core := s.groups[""]; core != nil {
		s.coreAggregated = newDocument(func() runtime.Object { return aggregate([]*group{core}) })
	}
	return s
}

// With adds what other servers of the cluster serve to the aggregated document of /apis.
func (s *Set) With(peers Peers) *Set {
	s.peers = peers
	s.merged = newDocument(func() runtime.Object {
		all := aggregate(s.order)
		all.Items = peers.Merge(all.Items)
		return all
	})
	return s
}

// aggregatedCore returns the aggregated document of /api: others serve the same.
func (s *Set) aggregatedCore(alone bool) *document {
	if s.peers != nil && alone {
		s.peers.Asked(alone)
	}
	return s.coreAggregated
}

// aggregatedGroups returns the aggregated document of /apis: of this server alone, or of all servers.
func (s *Set) aggregatedGroups(alone bool) *document {
	if s.peers == nil {
		return s.apisAggregated
	}
	s.peers.Asked(alone)
	if alone {
		return s.apisAggregated
	}
	return s.merged
}

// add adds a version. Of two with the same name, the first counts.
func (g *group) add(gv GroupVersion) {
	if g.version(gv.Version) == nil {
		g.versions = append(g.versions, gv)
		g.priority = max(g.priority, gv.GroupPriority)
	}
}

func (g *group) version(name string) *GroupVersion {
	for i := range g.versions {
		if g.versions[i].Version == name {
			return &g.versions[i]
		}
	}
	return nil
}

func (g *group) document() runtime.Object {
	doc := g.apiGroup()
	doc.Kind, doc.APIVersion = "APIGroup", "v1"
	return &doc
}

func (g *group) apiGroup() metav1.APIGroup {
	doc := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		doc.Versions = append(doc.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version})
	}
	doc.PreferredVersion = doc.Versions[0]
	return doc
}

func (s *Set) groupList() *metav1.APIGroupList {
	l := &metav1.APIGroupList{Groups: []metav1.APIGroup{}}
	l.Kind, l.APIVersion = "APIGroupList", "v1"
	for _, g := range s.order {
		l.Groups = append(l.Groups, g.apiGroup())
	}
	return l
}

func aggregate(groups []*group) *apidiscoveryv2.APIGroupDiscoveryList {
	l := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	l.Kind, l.APIVersion = "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"
	for _, g := range groups {
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for i := range g.versions {
			item.Versions = append(item.Versions, g.versions[i].aggregated())
		}
		l.Items = append(l.Items, item)
	}
	return l
}

// apiVersions returns the document of /api for one client.
func (s *Set) apiVersions(r *http.Request) *metav1.APIVersions {
	doc := &metav1.APIVersions{Versions: []string{}}
	doc.Kind = "APIVersions" // without apiVersion, for compatibility
	if core := s.groups[""]; core != nil {
		for _, v := range core.versions {
			doc.Versions = append(doc.Versions, v.Version)
		}
	}
	client := utilnet.GetClientIP(r)
	for _, a := range s.addresses {
		_, network, err := netutils.ParseCIDRSloppy(a.ClientCIDR)
		everyone := strings.HasSuffix(a.ClientCIDR, "/0")
		if everyone || err == nil && client != nil && network.Contains(client) {
			doc.ServerAddressByClientCIDRs = append(doc.ServerAddressByClientCIDRs, a)
		}
	}
	return doc
}

// document is a document that is generated on first request. It keeps its JSON; rarer encodings are generated from the
// object again.
type document struct {
	object func() runtime.Object
	json   func() []byte // on one line
	hash   func() string
	noCBOR bool // version documents of custom resources, in kube-apiserver
}

func newDocument(object func() runtime.Object) *document {
	d := &document{object: object}
	d.json = sync.OnceValue(func() []byte {
		b, err := json.Marshal(d.object())
		if err != nil {
			panic(fmt.Sprintf("discovery document: %v", err)) // cannot fail: it consists of names
		}
		return append(b, '\n')
	})
	d.hash = sync.OnceValue(func() string { return fmt.Sprintf("%X", sha512.Sum512(d.json())) })
	return d
}
