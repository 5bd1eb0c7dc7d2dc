package crd

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Verbs in discovery; a terminating definition has fewer.
var (
	verbs            = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	verbsTerminating = []string{"delete", "deletecollection", "get", "list", "watch"}
)

// resource returns the definition's catalog entry; nil if it is not served.
func (s *Server) resource(d *definition) *catalog.Resource {
	if !d.servable() {
		return nil
	}
	r := &catalog.Resource{
		GroupResource: apischema.GroupResource{Group: d.group, Resource: d.accepted.Plural},
		Kind:          d.accepted.Kind, Namespaced: d.namespaced, Custom: true, Listed: d.established, Storage: d.storage(),
		Endpoint: func(version string) (*engine.Endpoint, error) {
			ep, err := d.serving.endpoint(version)
			if errors.Is(err, errDeleted) { // the request was on its way
				return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "", apischema.GroupResource{Group: d.group, Resource: d.accepted.Plural}, "", "", 0, true)
			}
			if err != nil {
				s.Log.Error("a custom resource cannot be served", "definition", d.name, "error", err)
				return nil, apierrors.NewInternalError(errors.New("error resolving resource"))
			}
			return ep, nil
		},
		View:      func() *store.View { return d.serving.view() },
		Described: d.described,
		Definition: &catalog.Definition{
			Hash:     func() string { return fmt.Sprint(d.uid, d.generation, d.accepted) },
			Load:     func() (*apiextensionsv1.CustomResourceDefinition, error) { return s.decode(d.item) },
			Connects: d.connects,
		},
	}
	for _, v := range d.versions {
		if v.served {
			r.Versions = append(r.Versions, v.name)
		}
	}
	return r
}

// publish adds a definition to the catalog, or removes one that is not served.
func (s *Server) publish(d *definition) {
	if s.builtin(d.group, d.accepted.Plural) {
		return // another server accepted the name
	}
	if r := s.resource(d); r != nil {
		s.Catalog.Put(r)
	} else {
		s.withdraw(d.name)
	}
}

// withdraw removes the resource of a definition from the catalog.
func (s *Server) withdraw(name string) {
	group, plural := splitName(name)
	if !s.builtin(group, plural) {
		s.Catalog.Remove(apischema.GroupResource{Group: group, Resource: plural})
	}
}

// builtin reports whether a resource is built in.
func (s *Server) builtin(group, plural string) bool {
	r := s.Catalog.Now().Resource(apischema.GroupResource{Group: group, Resource: plural})
	return r != nil && !r.Custom
}

// described returns the part of a Resource that discovery uses.
func (d *definition) described(name string) *engine.Resource {
	n, v := d.accepted, d.version(name)
	r := &engine.Resource{
		Plural: n.Plural, Singular: n.Singular, Kind: n.Kind, ShortNames: n.ShortNames, Categories: n.Categories,
		Namespaced: d.namespaced, Prefix: d.prefix(), Hub: d.gv(d.storage()), Verbs: slices.Clone(verbs),
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
	if d.finish != nil {
		d.finish(r)
	}
	return r
}
