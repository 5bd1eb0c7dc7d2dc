package testkit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
)

const definitionKind = "CustomResourceDefinition"

// Install creates objects, or updates those that exist, as the administrator: definitions first, whose kinds are served when it returns, then namespaces,
// and webhooks last.
func (s *Server) Install(ctx context.Context, sources ...Source) error {
	if err := s.install(ctx, sources); err != nil {
		return fmt.Errorf("testkit: %w", s.process.explained(err))
	}
	return nil
}

func (s *Server) install(ctx context.Context, sources []Source) error {
	var all []object
	for _, source := range sources {
		more, err := source.read()
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	sort.SliceStable(all, func(a, b int) bool { return rank(all[a]) < rank(all[b]) })
	var definitions []object
	for _, o := range all {
		if o.kind() == definitionKind {
			definitions = append(definitions, o)
		} else if len(definitions) > 0 {
			if err := s.established(ctx, definitions); err != nil {
				return err
			}
			definitions = nil
		}
		if s.webhooks != nil {
			s.webhooks.direct(o)
			if o.kind() == definitionKind && slices.Contains(s.options.Converted, o.name()) {
				s.webhooks.convert(o)
			}
		}
		if err := s.apply(ctx, o); err != nil {
			return fmt.Errorf("install %s %s: %w", o.kind(), o.name(), err)
		}
	}
	return s.established(ctx, definitions)
}

// rank orders kinds: what others need comes first.
func rank(o object) int {
	switch kind := o.kind(); {
	case kind == definitionKind:
		return 0
	case kind == "Namespace":
		return 1
	case strings.HasPrefix(o.groupVersion(), "admissionregistration"):
		return 3 // they act on all that comes after them
	}
	return 2
}

// apply creates an object, or updates the one that exists.
func (s *Server) apply(ctx context.Context, o object) error {
	r, err := s.kinds.find(ctx, s.client, o.groupVersion(), o.kind())
	if err != nil {
		return err
	}
	path := r.path(o.namespace())
	if err := s.client.do(ctx, http.MethodPost, path, o, nil); !isCode(err, http.StatusConflict) || o.name() == "" {
		return err
	}
	path += "/" + url.PathEscape(o.name())
	return poll(ctx, "others change it", func() (bool, error) {
		there := object{}
		if err := s.client.get(ctx, path, &there); err != nil {
			return false, err
		}
		o.at("metadata")["resourceVersion"] = there.text("metadata", "resourceVersion")
		err := s.client.do(ctx, http.MethodPut, path, o, nil)
		return !isCode(err, http.StatusConflict), err
	})
}

// established waits until definitions are served.
func (s *Server) established(ctx context.Context, definitions []object) error {
	for _, d := range definitions {
		var now struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
				}
			}
			Status struct{ Conditions []condition }
		}
		last := ""
		err := poll(ctx, d.name()+" is not established", func() (bool, error) {
			if err := s.client.get(ctx, "/apis/"+d.groupVersion()+"/customresourcedefinitions/"+d.name(), &now); err != nil {
				return false, err
			}
			for _, c := range now.Status.Conditions {
				switch {
				case c.Type == "NamesAccepted" && c.Status == "False":
					return false, fmt.Errorf("the names of %s are not accepted: %s", d.name(), c.Message)
				case c.Status == "False":
					last = c.Message
				case c.Type == "Established" && c.Status == "True":
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("%w %s", err, last)
		}
		for _, v := range now.Spec.Versions {
			if !v.Served {
				continue
			}
			if err := poll(ctx, d.name()+" is not served", func() (bool, error) {
				_, err := s.kinds.find(ctx, s.client, now.Spec.Group+"/"+v.Name, now.Spec.Names.Kind)
				return err == nil, nil //nolint:nilerr // it is asked again
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// resource is where the objects of a kind are.
type resource struct {
	Name         string
	Kind         string
	Namespaced   bool
	groupVersion string
}

// path of the objects of a namespace, "default" if it is not given.
func (r resource) path(namespace string) string {
	path := "/apis/" + r.groupVersion
	if !strings.Contains(r.groupVersion, "/") {
		path = "/api/" + r.groupVersion
	}
	if r.Namespaced {
		if namespace == "" {
			namespace = "default"
		}
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + r.Name
}

// kinds are those that a server serves, as far as they were needed.
type kinds struct {
	mu    sync.Mutex
	known map[string]resource // by groupVersion and kind; guarded by mu
}

// find returns the resource of a kind; discovery is read anew for one that is not known.
func (k *kinds) find(ctx context.Context, c *client, groupVersion, kind string) (resource, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := groupVersion + " " + kind
	if r, ok := k.known[key]; ok {
		return r, nil
	}
	var list struct{ Resources []resource }
	if err := c.get(ctx, resource{groupVersion: groupVersion}.path(""), &list); err != nil && !isCode(err, http.StatusNotFound) {
		return resource{}, err
	}
	if k.known == nil {
		k.known = map[string]resource{}
	}
	for _, r := range list.Resources {
		if r.groupVersion = groupVersion; !strings.Contains(r.Name, "/") {
			k.known[groupVersion+" "+r.Kind] = r
		}
	}
	r, ok := k.known[key]
	if !ok {
		return r, fmt.Errorf("the server has no kind %s in %s; is its CRD installed?", kind, groupVersion)
	}
	return r, nil
}
