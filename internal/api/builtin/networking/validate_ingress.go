package networking

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// ingressOptions relax rules for stored ingresses.
type ingressOptions struct {
	allowInvalidSecretName   bool
	allowInvalidWildcardRule bool
	serviceName              rules.NameRule
}

func (d Deps) validateIngress(_ context.Context, i *networkingv1.Ingress) field.ErrorList {
	errs := ingress(i, ingressOptions{serviceName: d.serviceName(nil)})
	class, found := i.Annotations[classAnnotation]
	if found && i.Spec.IngressClassName != nil && class != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

func (d Deps) validateIngressUpdate(_ context.Context, i, old *networkingv1.Ingress) field.ErrorList {
	o := ingressOptions{serviceName: d.serviceName(old)}
	for _, t := range old.Spec.TLS {
		if t.SecretName != "" && len(rules.Subdomain(t.SecretName, false)) > 0 {
			o.allowInvalidSecretName = true
		}
	}
	for k := range old.Spec.Rules {
		r := &old.Spec.Rules[k]
		e := rules.At(nil)
		ingressPaths(r.HTTP, e, rules.LabelOfLetter)
		if strings.Contains(r.Host, "*") && len(e.List()) > 0 {
			o.allowInvalidWildcardRule = true
		}
	}
	errs := rules.ObjectMetaUpdate(&i.ObjectMeta, &old.ObjectMeta)
	return append(errs, ingress(i, o)...)
}

// serviceName is the rule for the names of services that an ingress leads to; old is the stored one, nil on create.
func (d Deps) serviceName(old *networkingv1.Ingress) rules.NameRule {
	relaxed := func(b *networkingv1.IngressBackend) bool {
		return b != nil && b.Service != nil && len(rules.Label(b.Service.Name, false)) == 0 && len(rules.LabelOfLetter(b.Service.Name, false)) > 0
	}
	if !d.Gates.Off(features.RelaxedServiceNameValidation) || old != nil && relaxed(old.Spec.DefaultBackend) {
		return rules.Label
	}
	if old == nil {
		return rules.LabelOfLetter
	}
	for _, r := range old.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for i := range r.HTTP.Paths {
			if relaxed(&r.HTTP.Paths[i].Backend) {
				return rules.Label
			}
		}
	}
	return rules.LabelOfLetter
}

func ingress(i *networkingv1.Ingress, o ingressOptions) field.ErrorList {
	s := &i.Spec
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&i.ObjectMeta, true, rules.Subdomain))
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		e.Invalid(s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if s.DefaultBackend != nil {
		ingressBackend(s.DefaultBackend, e.Field("defaultBackend"), o.serviceName)
	}
	for k := range s.Rules {
		r, at := &s.Rules[k], e.Field("rules").Item(k)
		if r.Host != "" {
			if netutils.ParseIPSloppy(r.Host) != nil {
				at.Field("host").Invalid(r.Host, "must be a DNS name, not an IP address")
			}
			at.Field("host").Messages(r.Host, hostMessages(r.Host))
		}
		if !strings.Contains(r.Host, "*") || !o.allowInvalidWildcardRule {
			ingressPaths(r.HTTP, at, o.serviceName)
		}
	}
	for k := range s.TLS {
		t, at := &s.TLS[k], e.Field("tls").Item(k)
		for n, host := range t.Hosts {
			at.Field("hosts").Item(n).Messages(host, hostMessages(host))
		}
		if !o.allowInvalidSecretName && t.SecretName != "" {
			at.Name("secretName", t.SecretName, rules.Subdomain)
		}
	}
	if c := s.IngressClassName; c != nil {
		e.Name("ingressClassName", *c, rules.Subdomain)
	}
	return e.List()
}

// hostMessages returns the errors in a host, which may begin with "*.".
func hostMessages(host string) []string {
	if strings.Contains(host, "*") {
		return validation.IsWildcardDNS1123Subdomain(host)
	}
	return validation.IsDNS1123Subdomain(host)
}

func ingressPaths(r *networkingv1.HTTPIngressRuleValue, e rules.Errors, serviceName rules.NameRule) {
	if r == nil {
		return
	}
	e = e.Field("http").Field("paths")
	if len(r.Paths) == 0 {
		e.Required("")
	}
	for i := range r.Paths {
		ingressPath(&r.Paths[i], e.Item(i), serviceName)
	}
}

func ingressPath(p *networkingv1.HTTPIngressPath, e rules.Errors, serviceName rules.NameRule) {
	if p.PathType == nil {
		e.Field("pathType").Required("pathType must be specified")
		return
	}
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			e.Field("path").Invalid(p.Path, "must be an absolute path")
		}
		for _, s := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, s) {
				e.Field("path").Invalid(p.Path, "must not contain '"+s+"'")
			}
		}
		for _, s := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, s) {
				e.Field("path").Invalid(p.Path, "cannot end with '"+s+"'")
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			e.Field("path").Invalid(p.Path, "must be an absolute path")
		}
	default:
		rules.OneOf(e, "pathType", *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix,
		})
	}
	ingressBackend(&p.Backend, e.Field("backend"), serviceName)
}

func ingressBackend(b *networkingv1.IngressBackend, e rules.Errors, serviceName rules.NameRule) {
	switch {
	case b.Resource != nil && b.Service != nil:
		e.Invalid("", "cannot set both resource and service backends")
	case b.Resource != nil:
		ingressObject(b.Resource, e.Field("resource"))
	case b.Service != nil:
		ingressService(b.Service, e, serviceName)
	default:
		e.Invalid("", "resource or service backend is required")
	}
}

func ingressObject(r *corev1.TypedLocalObjectReference, e rules.Errors) {
	if r.APIGroup != nil {
		e.DNSSubdomain("apiGroup", *r.APIGroup)
	}
	e.PathSegment("kind", r.Kind)
	e.PathSegment("name", r.Name)
}

func ingressService(s *networkingv1.IngressServiceBackend, e rules.Errors, name rules.NameRule) {
	service := e.Field("service")
	if service.Present("name", s.Name) {
		service.Name("name", s.Name, name)
	}
	switch port := service.Field("port"); {
	case s.Port.Name != "" && s.Port.Number != 0:
		e.Invalid("", "cannot set both port name & port number")
	case s.Port.Name != "":
		port.Field("name").Messages(s.Port.Name, validation.IsValidPortName(s.Port.Name))
	case s.Port.Number != 0:
		port.Port("number", s.Port.Number)
	default:
		e.Required("port name or number is required")
	}
}

func (d Deps) validateIngressStatus(_ context.Context, i, old *networkingv1.Ingress) field.ErrorList {
	e := rules.At(statusPath).Sloppy(d.sloppy())
	e.Add(rules.ObjectMetaUpdate(&i.ObjectMeta, &old.ObjectMeta))
	var oldIPs []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			oldIPs = append(oldIPs, in.IP)
		}
	}
	for k, in := range i.Status.LoadBalancer.Ingress {
		at := e.Field("loadBalancer").Field("ingress").Item(k)
		if in.IP != "" {
			at.Field("ip").IP(in.IP, oldIPs)
		}
		if in.Hostname != "" {
			at.DNSSubdomain("hostname", in.Hostname)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				at.Field("hostname").Invalid(in.Hostname, "must be a DNS name, not an IP address")
			}
		}
	}
	return e.List()
}

func validateIngressClass(_ context.Context, c *networkingv1.IngressClass) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, false, rules.Subdomain))
	if len(c.Spec.Controller) > 250 {
		e.Field("controller").TooLong(250)
	}
	e.Add(validation.IsDomainPrefixedPath(specPath.Child("controller"), c.Spec.Controller))
	if c.Spec.Parameters != nil {
		classParameters(c.Spec.Parameters, e.Field("parameters"))
	}
	return e.List()
}

func validateIngressClassUpdate(ctx context.Context, c, old *networkingv1.IngressClass) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	e.Unchanged("controller", c.Spec.Controller, old.Spec.Controller)
	e.Add(validateIngressClass(ctx, c))
	return e.List()
}

func classParameters(p *networkingv1.IngressClassParametersReference, e rules.Errors) {
	if p.APIGroup != nil {
		e.DNSSubdomain("apiGroup", *p.APIGroup)
	}
	e.PathSegment("kind", p.Kind)
	e.PathSegment("name", p.Name)
	if p.Scope == nil {
		e.Field("scope").Required("")
		return
	}
	switch *p.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			e.Field("namespace").Required("`parameters.scope` is set to 'Namespace'")
		} else {
			e.Name("namespace", *p.Namespace, rules.NamespaceName)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			e.Field("namespace").Forbidden("`parameters.scope` is set to 'Cluster'")
		}
	default:
		rules.OneOf(e, "scope", *p.Scope, []string{
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace,
		})
	}
}
