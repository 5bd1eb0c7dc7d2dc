package resolver

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// PodBehind returns the address of a random ready endpoint of a service that is a pod of its namespace: whoever may
// write endpoints cannot lead requests elsewhere by them. The port is the number or the name of one of the service's; ""
// is the one without a name. EndpointSlices are read and, of a service that has none, its Endpoints. Errors call the
// service by id.
func (r *Resolver) PodBehind(ctx context.Context, namespace, service, port string) (string, error) {
	name, err := r.portName(ctx, namespace, service, port)
	if err != nil {
		return "", err
	}
	found, err := r.slices(ctx, namespace, service, name)
	if err != nil {
		return "", err
	}
	if found == nil {
		if found, err = r.legacy(ctx, namespace, service, name); err != nil {
			return "", err
		}
	}
	for len(found) > 0 {
		n := r.Random(len(found))
		if r.isPod(ctx, namespace, found[n]) {
			return address(found[n].ip, found[n].port), nil
		}
		found = slices.Delete(found, n, n+1)
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
}

// endpoint is an address that a service leads to, and what it says it belongs to.
type endpoint struct {
	ip     string
	port   int32
	target *corev1.ObjectReference
}

// portName returns the name of a service's port.
func (r *Resolver) portName(ctx context.Context, namespace, service, port string) (string, error) {
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return port, nil
	}
	svc, err := admission.Seen[*corev1.Service](ctx, r.Objects, corev1.Resource("services"), namespace, service)
	if err != nil {
		return "", err
	}
	p, err := portOfService(svc, int32(n))
	if err != nil {
		return "", err
	}
	return p.Name, nil
}

// slices returns the ready endpoints of a service's slices; nil if there are no slices.
func (r *Resolver) slices(ctx context.Context, namespace, service, port string) ([]endpoint, error) {
	all, err := admission.List[*discoveryv1.EndpointSlice](ctx, r.Objects, discoveryv1.Resource("endpointslices"), namespace)
	if err != nil {
		return nil, err
	}
	var out []endpoint
	for _, s := range all {
		if s.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		if out == nil {
			out = []endpoint{}
		}
		out = append(out, readyIn(s, port)...)
	}
	return out, nil
}

func readyIn(s *discoveryv1.EndpointSlice, port string) (out []endpoint) {
	i := portIn(s, port)
	if i < 0 {
		return nil
	}
	for _, e := range s.Endpoints {
		if isReady(&e) {
			out = append(out, endpoint{e.Addresses[0], *s.Ports[i].Port, e.TargetRef})
		}
	}
	return out
}

// legacy returns the endpoints of a service's Endpoints.
func (r *Resolver) legacy(ctx context.Context, namespace, service, port string) ([]endpoint, error) {
	//lint:ignore SA1019 deprecated for its users, and still served to them
	object, err := admission.Seen[*corev1.Endpoints](ctx, r.Objects, corev1.Resource("endpoints"), namespace, service)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
	}
	if err != nil {
		return nil, err
	}
	if len(object.Subsets) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
	}
	var out []endpoint
	for _, subset := range object.Subsets {
		for _, p := range subset.Ports {
			if p.Name != port {
				continue
			}
			for _, a := range subset.Addresses {
				out = append(out, endpoint{a.IP, p.Port, a.TargetRef})
			}
		}
	}
	return out, nil
}

// isPod reports whether an endpoint is a pod of the namespace.
func (r *Resolver) isPod(ctx context.Context, namespace string, e endpoint) bool {
	if e.target == nil || e.target.Namespace != namespace {
		return false
	}
	pod, err := admission.Seen[*corev1.Pod](ctx, r.Objects, corev1.Resource("pods"), namespace, e.target.Name)
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == e.ip })
}
