// Package resolver resolves services to addresses, for the server's own connections to webhooks and extension servers.
package resolver

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Resolver resolves services to their cluster IP, or to one of their endpoints if cluster IPs do not work where this
// server runs.
type Resolver struct {
	Objects admission.Objects
	// Endpoints prefers endpoints (--enable-aggregator-routing).
	Endpoints bool
	// Random returns a number below n.
	Random func(n int) int
}

// Resolve returns the address of a service's port.
func (r *Resolver) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	svc, err := admission.Seen[*corev1.Service](ctx, r.Objects, corev1.Resource("services"), namespace, name)
	if apierrors.IsNotFound(err) {
		return "", apierrors.NewNotFound(corev1.Resource("service"), name) // singular, as upstream writes it
	}
	if err != nil {
		return "", err
	}
	if r.Endpoints {
		return r.endpoint(ctx, svc, port)
	}
	switch svc.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return address(svc.Spec.ExternalName, port), nil
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		return "", fmt.Errorf("unsupported service type %q", svc.Spec.Type)
	}
	if svc.Spec.Type == corev1.ServiceTypeClusterIP && svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return "", fmt.Errorf(`cannot route to service with ClusterIP "None"`)
	}
	if _, err := portOfService(svc, port); err != nil {
		return "", err
	}
	return address(svc.Spec.ClusterIP, port), nil
}

// endpoint returns the address of a random ready endpoint of a service, of its first address family if that has any.
func (r *Resolver) endpoint(ctx context.Context, svc *corev1.Service, port int32) (string, error) {
	switch svc.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		return "", fmt.Errorf("unsupported service type %q", svc.Spec.Type)
	}
	sp, err := portOfService(svc, port)
	if err != nil {
		return "", err
	}
	all, err := admission.SeenList[*discoveryv1.EndpointSlice](ctx, r.Objects, discoveryv1.Resource("endpointslices"), svc.Namespace)
	if err != nil {
		return "", err
	}
	var first, others []string
	for _, s := range all {
		if s.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		found := addresses(s, sp.Name)
		if len(svc.Spec.IPFamilies) > 0 && string(s.AddressType) != string(svc.Spec.IPFamilies[0]) {
			others = append(others, found...)
		} else {
			first = append(first, found...)
		}
	}
	if len(first) == 0 {
		first = others
	}
	if len(first) == 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", svc.Name))
	}
	return first[r.Random(len(first))], nil
}

// addresses returns the addresses of a slice's ready endpoints with a named port.
func addresses(s *discoveryv1.EndpointSlice, port string) []string {
	i := portIn(s, port)
	if i < 0 {
		return nil
	}
	var out []string
	for _, e := range s.Endpoints {
		if isReady(&e) {
			out = append(out, address(e.Addresses[0], *s.Ports[i].Port))
		}
	}
	return out
}

// portIn returns the index of a slice's port of a name, -1 if there is none.
func portIn(s *discoveryv1.EndpointSlice, name string) int {
	return slices.IndexFunc(s.Ports, func(p discoveryv1.EndpointPort) bool {
		return ptr.Deref(p.Name, "") == name && p.Port != nil
	})
}

func isReady(e *discoveryv1.Endpoint) bool {
	return (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0
}

func portOfService(svc *corev1.Service, port int32) (*corev1.ServicePort, error) {
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Port == port {
			return &svc.Spec.Ports[i], nil
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, svc.Name))
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
