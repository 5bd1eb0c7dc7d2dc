package networking

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func ingressTable() *engine.Table {
	return engine.TableOf(ingressRow,
		cells.Name(),
		cells.String("Class", "The IngressClass that says who serves this ingress."),
		cells.String("Hosts", "Hosts that requests are matched against."),
		cells.String("Address", "Addresses of the load balancer."),
		cells.String("Ports", "Ports that the ingress listens on."),
		cells.Age(),
	)
}

func ingressRow(i *networkingv1.Ingress) []any {
	ports := "80"
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	var addresses []string
	for _, a := range i.Status.LoadBalancer.Ingress {
		if s := cells.Or(a.IP, a.Hostname); s != "" {
			addresses = append(addresses, s)
		}
	}
	slices.Sort(addresses)
	return []any{
		i.Name, cells.Deref(i.Spec.IngressClassName, cells.None), ingressHosts(i.Spec.Rules),
		strings.Join(slices.Compact(addresses), ","), ports, cells.Since(i.CreationTimestamp),
	}
}

// ingressHosts returns the first three hosts. The number of others counts all further rules, with or without a host.
func ingressHosts(rules []networkingv1.IngressRule) string {
	const shown = 3
	var hosts []string
	for n, r := range rules {
		if len(hosts) == shown && n < len(rules) {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-shown)
		}
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	return cells.Or(strings.Join(hosts, ","), "*")
}

func ingressClassTable() *engine.Table {
	return engine.TableOf(ingressClassRow,
		cells.Name(),
		cells.String("Controller", "The controller that serves this class."),
		cells.String("Parameters", "A further object with settings for the controller."),
		cells.Age(),
	)
}

func ingressClassRow(c *networkingv1.IngressClass) []any {
	name := c.Name
	if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		name += " (default)"
	}
	parameters := cells.None
	if p := c.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{name, c.Spec.Controller, parameters, cells.Since(c.CreationTimestamp)}
}

func networkPolicyTable() *engine.Table {
	return engine.TableOf(networkPolicyRow,
		cells.Name(),
		cells.String("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
		cells.Age(),
	)
}

func networkPolicyRow(p *networkingv1.NetworkPolicy) []any {
	return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), cells.Since(p.CreationTimestamp)}
}

func serviceCIDRTable() *engine.Table {
	return engine.TableOf(serviceCIDRRow,
		cells.Name(),
		cells.String("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
		cells.Age(),
	)
}

func serviceCIDRRow(c *networkingv1.ServiceCIDR) []any {
	return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), cells.Since(c.CreationTimestamp)}
}

func ipAddressTable() *engine.Table {
	return engine.TableOf(ipAddressRow,
		cells.Name(),
		cells.String("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
	)
}

// ipAddressRow has one cell more than there are columns, the age, for compatibility.
func ipAddressRow(ip *networkingv1.IPAddress) []any {
	parent := cells.None
	if ref := ip.Spec.ParentRef; ref != nil {
		parts := []string{strings.ToLower(schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String())}
		if ref.Namespace != "" {
			parts = append(parts, ref.Namespace)
		}
		parent = strings.Join(append(parts, ref.Name), "/")
	}
	return []any{ip.Name, parent, cells.Since(ip.CreationTimestamp)}
}
