//lint:file-ignore SA1019 Endpoints are deprecated, and read by kubelets and proxies of all ages

package kubernetesservice

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file computes and writes the three objects.

// keep applies edit to an object. If it does not exist, edit gets blank and the result is created; otherwise it is
// updated only if edit changes it. edit may be called several times, each time with the newest object.
func keep[T engine.Object](ctx context.Context, client *inprocess.Client, ep *engine.Endpoint, blank T, edit func(obj T) error) error {
	all := inprocess.Target{Resource: ep.GVR, Namespace: metav1.NamespaceDefault}
	have, err := ep.GetObject(ctx, metav1.NamespaceDefault, name)
	switch {
	case apierrors.IsNotFound(err):
		if err := edit(blank); err != nil {
			return err
		}
		if _, err := client.Create(ctx, all, blank); !apierrors.IsAlreadyExists(err) {
			return err
		}
		// Another server was faster: read its version.
	case err != nil:
		return err
	default:
		want := have.DeepCopyObject().(T)
		if err := edit(want); err != nil || apiequality.Semantic.DeepEqual(have, want) {
			return err
		}
	}
	// The name makes the object what it is, and edit looks at whatever is stored.
	_, err = inprocess.Edit(ctx, client, all, request.Named(metav1.NamespaceDefault, name), edit)
	return err
}

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}
}

// keepService creates the Service if it is missing. An existing one stays as it is, as in kube-apiserver: its ports may
// have been changed on purpose.
func (c *Controller) keepService(ctx context.Context) error {
	single := corev1.IPFamilyPolicySingleStack
	s := &corev1.Service{
		ObjectMeta: meta(),
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			ClusterIP:       c.ClusterIP.String(),
			IPFamilyPolicy:  &single,
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports:           []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt(c.Port)}},
		},
	}
	s.Labels = map[string]string{"provider": "kubernetes", "component": "apiserver"}
	if c.NodePort != 0 {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(c.NodePort)
	}
	return keep(ctx, c.Client, c.Services, s, func(*corev1.Service) error { return nil })
}

// errNobody means that the roster is empty although a server runs.
var errNobody = errors.New("no API servers")

// keepEndpoints updates the Endpoints and the EndpointSlice from the roster. last is true if this server has left for
// good.
func (c *Controller) keepEndpoints(ctx context.Context, last bool) error {
	err := keep(ctx, c.Client, c.Endpoints, &corev1.Endpoints{ObjectMeta: meta()}, func(e *corev1.Endpoints) error {
		return c.fillEndpoints(ctx, e, last)
	})
	if errors.Is(err, errNobody) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.keepSlice(ctx)
}

func (c *Controller) fillEndpoints(ctx context.Context, e *corev1.Endpoints, last bool) error {
	var have corev1.EndpointSubset
	if len(e.Subsets) == 1 {
		have = e.Subsets[0]
	}
	var addresses []string
	for _, a := range have.Addresses {
		addresses = append(addresses, a.IP)
	}
	addresses, err := c.Roster.Addresses(ctx, addresses)
	if err != nil {
		return err
	}
	// While this server runs, the roster has at least one server. Endpoints of a server that may be gone are better
	// than none, unless this server itself is leaving.
	if len(addresses) == 0 && (!last || e.ResourceVersion == "") {
		return errNobody
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	e.Labels[discoveryv1.LabelSkipMirror] = "true" // this package writes the slice, so the mirroring controller must not
	e.Subsets = nil
	if len(addresses) == 0 {
		return nil
	}
	s := corev1.EndpointSubset{Ports: have.Ports}
	// All servers must use the same port. If they differ, the existing ports stay; otherwise each server would
	// overwrite the others' port.
	if len(s.Ports) == 0 || slices.Equal(addresses, []string{c.Address.String()}) {
		s.Ports = []corev1.EndpointPort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: int32(c.Port)}}
	}
	for _, a := range addresses {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a})
	}
	e.Subsets = []corev1.EndpointSubset{s}
	return nil
}

// errOtherType means that the slice has addresses of another family, which is immutable.
var errOtherType = errors.New("the endpoint slice is of another address type")

// keepSlice copies the Endpoints to the EndpointSlice.
func (c *Controller) keepSlice(ctx context.Context) error {
	var wrong *discoveryv1.EndpointSlice // the slice with errOtherType
	mirror := func() error {
		return keep(ctx, c.Client, c.Slices, &discoveryv1.EndpointSlice{ObjectMeta: meta()}, func(s *discoveryv1.EndpointSlice) error {
			e, err := c.Endpoints.GetObject(ctx, metav1.NamespaceDefault, name)
			if err != nil {
				return err
			}
			wrong = s
			return fillSlice(s, e.(*corev1.Endpoints))
		})
	}
	err := mirror()
	if !errors.Is(err, errOtherType) {
		return err
	}
	err = c.Slices.DeleteObject(ctx, request.Same(wrong), nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return mirror()
}

func fillSlice(s *discoveryv1.EndpointSlice, e *corev1.Endpoints) error {
	family := addressType(e)
	if s.AddressType != "" && s.AddressType != family {
		return errOtherType
	}
	s.AddressType = family
	s.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	s.Endpoints, s.Ports = nil, nil
	ready := true
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			if netutils.IsIPv6String(a.IP) == (family == discoveryv1.AddressTypeIPv6) {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
			}
		}
		for _, p := range subset.Ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
		}
	}
	return nil
}

// addressType returns IPv6 if all addresses are of that family.
func addressType(e *corev1.Endpoints) discoveryv1.AddressType {
	family := discoveryv1.AddressTypeIPv4
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			if !netutils.IsIPv6String(a.IP) {
				return discoveryv1.AddressTypeIPv4
			}
			family = discoveryv1.AddressTypeIPv6
		}
	}
	return family
}
