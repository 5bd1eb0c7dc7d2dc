package server

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/kubernetesservice"
)

// This file wires what keeps the service by which pods reach the API, and
// makes the range that its address comes from.

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
	ep, err := b.Endpoint(gr)
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

// kubernetesService makes what keeps the service.
func (s *Server) kubernetesService(eng *engine.Engine, ready func(ctx context.Context) error) (*kubernetesservice.Controller, error) {
	var roster kubernetesservice.Roster
	address, err := s.cfg.Advertise()
	switch {
	case s.cfg.EndpointReconcilerType == "none":
	case err != nil:
		s.log.Warn("this server will not be an endpoint of the kubernetes service", "error", err)
	case address.IsLoopback(): // where endpoints may not be
	case s.cfg.EndpointReconcilerType == "lease":
		if roster, err = kubernetesservice.NewLeases(eng, address); err != nil {
			return nil, err
		}
	case s.cfg.EndpointReconcilerType == "master-count":
		roster = kubernetesservice.NewCount(s.cfg.APIServerCount, address)
	}
	return kubernetesservice.New(kubernetesservice.Config{
		Services:  s.builtin("", "services"),
		Endpoints: s.builtin("", "endpoints"),
		Slices:    s.builtin(discoveryv1.GroupName, "endpointslices"),
		ClusterIP: config.FirstAddress(s.ranges[0]), NodePort: s.cfg.KubernetesServiceNodePort,
		Address: address, Port: s.port(),
		Roster: roster, Ready: ready,
		Clock: s.clock, Log: s.log,
	}), nil
}
