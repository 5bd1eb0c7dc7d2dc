package crd

import (
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// Priorities of all groups and versions of custom resources.
const groupPriority, versionPriority = 1000, 100

// Verbs as discovery lists them; a definition that is going away has fewer.
var (
	verbs            = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	verbsTerminating = []string{"delete", "deletecollection", "get", "list", "watch"}
)

// Changes counts what the documents about custom resources depend on.
func (s *Server) Changes() int64 { return s.changes.Load() }

// Discovery lists the groups and versions of custom resources.
func (s *Server) Discovery() []discovery.GroupVersion {
	byGV, order := s.served()
	out := make([]discovery.GroupVersion, 0, len(order))
	for _, gv := range order {
		ds := byGV[gv]
		out = append(out, discovery.GroupVersion{
			GroupVersion: gv, GroupPriority: groupPriority, VersionPriority: versionPriority, Custom: true,
			Resources: func() []*engine.Resource {
				rs := make([]*engine.Resource, 0, len(ds))
				for _, d := range ds {
					rs = append(rs, d.described(gv.Version))
				}
				return rs
			},
		})
	}
	return out
}

// served sorts the definitions into the groups and versions that they serve.
func (s *Server) served() (byGV map[apischema.GroupVersion][]*definition, order []apischema.GroupVersion) {
	byGV = map[apischema.GroupVersion][]*definition{}
	for _, d := range s.established() {
		for _, v := range d.versions {
			if !v.served {
				continue
			}
			gv := d.gv(v.name)
			if byGV[gv] == nil {
				order = append(order, gv)
			}
			byGV[gv] = append(byGV[gv], d)
		}
	}
	return byGV, order
}

// described is as much of a Resource as discovery tells.
func (d *definition) described(name string) *engine.Resource {
	n, v := d.accepted, d.version(name)
	r := &engine.Resource{
		Plural: n.Plural, Singular: n.Singular, Kind: n.Kind, ShortNames: n.ShortNames, Categories: n.Categories,
		Namespaced: d.namespaced, Prefix: d.group + "/" + n.Plural, Hub: d.gv(d.storage()), Verbs: slices.Clone(verbs),
	}
	if d.terminating {
		r.Verbs = slices.Clone(verbsTerminating)
	}
	if v.status {
		r.Subresources = append(r.Subresources, &engine.Subresource{Name: "status", Verbs: subresourceVerbs})
	}
	if v.scale {
		r.Subresources = append(r.Subresources, &engine.Subresource{
			Name: "scale", Verbs: subresourceVerbs, Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale")})
	}
	return r
}
