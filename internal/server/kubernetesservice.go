//lint:file-ignore SA1019 Endpoints are deprecated, and read by kubelets and proxies of all ages

package server

import (
	"context"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// This file makes the service by which pods reach the API, and the range its
// address comes from.

const kubernetes = "kubernetes"

// serviceCIDR is the range that service addresses come from, as an object.
func (b *bootstrapper) serviceCIDR(ctx context.Context) error {
	gr := schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
	var cidrs []string
	for _, r := range b.ranges {
		cidrs = append(cidrs, r.String())
	}
	obj := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: kubernetes}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if err := b.ensure(ctx, gr, obj, managerServer); err != nil {
		return err
	}
	ep, err := b.endpoint(gr)
	if err != nil {
		return err
	}
	_, err = ep.Change(ctx, "", kubernetes, "status", "kubernetes-service-cidr-controller", func(o engine.Object) error {
		c := o.(*networkingv1.ServiceCIDR)
		for _, cond := range c.Status.Conditions {
			if cond.Type == networkingv1.ServiceCIDRConditionReady {
				return nil
			}
		}
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.Now(), Message: "Kubernetes default Service CIDR is ready",
		})
		return nil
	})
	return err
}

// firstAddress of a range is that of the kubernetes service.
func firstAddress(r *net.IPNet) net.IP {
	ip := append(net.IP{}, r.IP...)
	ip[len(ip)-1]++
	return ip
}

// kubernetesService leads pods to the API.
func (b *bootstrapper) kubernetesService(ctx context.Context) error {
	single := corev1.IPFamilyPolicySingleStack
	return b.ensure(ctx, schema.GroupResource{Resource: "services"}, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: kubernetes, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Ports:           []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt(b.port)}},
			ClusterIP:       firstAddress(b.ranges[0]).String(),
			SessionAffinity: corev1.ServiceAffinityNone, Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: &single,
		},
	}, managerServer)
}

// kubernetesEndpoints are where this server can be reached by the service.
func (b *bootstrapper) kubernetesEndpoints(ctx context.Context) error {
	if b.cfg.ReconcileEndpoint == "none" {
		return nil
	}
	ip, err := b.cfg.advertise()
	if err != nil || ip.IsLoopback() {
		return nil // endpoints may not be on the loopback network
	}
	gr := schema.GroupResource{Resource: "endpoints"}
	obj := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetes, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: ip.String()}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: int32(b.port), Protocol: corev1.ProtocolTCP}},
		}},
	}
	if err := b.ensure(ctx, gr, obj.DeepCopy(), managerServer); err != nil {
		return err
	}
	ep, err := b.endpoint(gr)
	if err != nil {
		return err
	}
	_, err = ep.Change(ctx, metav1.NamespaceDefault, kubernetes, "", managerServer, func(o engine.Object) error {
		o.(*corev1.Endpoints).Subsets = obj.Subsets
		return nil
	})
	return err
}

// kubernetesSlice is the same as an EndpointSlice.
func (b *bootstrapper) kubernetesSlice(ctx context.Context) error {
	if b.cfg.ReconcileEndpoint == "none" {
		return nil
	}
	ip, err := b.cfg.advertise()
	if err != nil || ip.IsLoopback() {
		return nil
	}
	family := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	name, tcp, port, ready := "https", corev1.ProtocolTCP, int32(b.port), true
	gr := schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
	obj := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetes, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelServiceName: kubernetes}},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Protocol: &tcp, Port: &port}},
	}
	if err := b.ensure(ctx, gr, obj.DeepCopy(), managerServer); err != nil {
		return err
	}
	ep, err := b.endpoint(gr)
	if err != nil {
		return err
	}
	_, err = ep.Change(ctx, metav1.NamespaceDefault, kubernetes, "", managerServer, func(o engine.Object) error {
		s := o.(*discoveryv1.EndpointSlice)
		s.Endpoints, s.Ports = obj.Endpoints, obj.Ports
		return nil
	})
	return err
}
