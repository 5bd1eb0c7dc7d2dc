package aggregator

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file checks whether there is anything behind the service of a backend, and follows what that depends on.

// routable returns the condition of APIServices whose service leads nowhere; nil if it leads somewhere.
func (s *Server) routable(ctx context.Context, k backendKey) *apiregistrationv1.APIServiceCondition {
	svc, err := engine.IndexOf[*corev1.Service](s.Services).Get(ctx, k.namespace+"/"+k.name)
	if errors.Is(err, store.ErrNotFound) {
		return pointer(unfit("ServiceNotFound", "service/%s in %q is not present", k.name, k.namespace))
	}
	if err != nil {
		return pointer(uncertain("ServiceAccessError", k, err))
	}
	if svc.Spec.Type != corev1.ServiceTypeClusterIP {
		return nil // it may lead to what is not in the cluster
	}
	port := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == k.port })
	if port < 0 {
		return pointer(unfit("ServicePortError", "service/%s in %q is not listening on port %d", k.name, k.namespace, k.port))
	}
	slicesOf, err := s.slicesOf(ctx, k)
	switch name := svc.Spec.Ports[port].Name; {
	case err != nil:
		return pointer(uncertain("EndpointsAccessError", k, err))
	case len(slicesOf) == 0:
		return pointer(unfit("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", k.name, k.namespace))
	case !slices.ContainsFunc(slicesOf, func(e *discoveryv1.EndpointSlice) bool { return serves(e, name) }):
		return pointer(unfit("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", k.name, k.namespace, name))
	}
	return nil
}

// uncertain is the condition of an APIService that could not be checked.
func uncertain(reason string, k backendKey, err error) apiregistrationv1.APIServiceCondition {
	c := unfit(reason, "service/%s in %q cannot be checked due to: %v", k.name, k.namespace, err)
	c.Status = apiregistrationv1.ConditionUnknown
	return c
}

func pointer[T any](v T) *T { return &v }

// serves reports whether a slice has a ready endpoint, and the port.
func serves(e *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(e.Endpoints, func(e discoveryv1.Endpoint) bool {
		return e.Conditions.Ready == nil || *e.Conditions.Ready
	}) && slices.ContainsFunc(e.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name == port && p.Port != nil
	})
}

// slicesOf returns the endpoint slices of a backend's service.
func (s *Server) slicesOf(ctx context.Context, k backendKey) ([]*discoveryv1.EndpointSlice, error) {
	all, err := engine.IndexOf[*discoveryv1.EndpointSlice](s.Slices).Objects(ctx, k.namespace+"/")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e *discoveryv1.EndpointSlice) bool { return e.Labels[discoveryv1.LabelServiceName] != k.name }), nil
}

// followServices checks backends when their service changes.
func (s *Server) followServices(ctx context.Context) {
	engine.IndexOf[engine.Object](s.Services).Follow(ctx, func(c store.Change[engine.Object]) { s.recheck(c.Namespace(), c.Name()) }, nil)
}

// labelsForm is the form of endpoint slices by their labels.
type labelsForm struct{}

// followSlices checks backends when their endpoints change.
func (s *Server) followSlices(ctx context.Context) {
	labels := store.NewIndex(s.Slices.View(), labelsForm{}, func(_ context.Context, i *store.Item) (k8slabels.Labels, error) { return s.Slices.View().Labels(i) })
	labels.Follow(ctx, func(c store.Change[k8slabels.Labels]) {
		set := c.Now
		if c.Gone {
			set, _ = c.Was(ctx)
		}
		if set != nil && s.names(c.Namespace()) {
			s.recheck(c.Namespace(), set.Get(discoveryv1.LabelServiceName))
		}
	}, nil)
}

// names reports whether a backend's service is in a namespace.
func (s *Server) names(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key := range s.backends {
		if key.namespace == namespace {
			return true
		}
	}
	return false
}

// recheck checks the backends of a service now.
func (s *Server) recheck(namespace, name string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, b := range s.backends {
		if key.namespace == namespace && key.name == name {
			b.probe.wake()
		}
	}
}
