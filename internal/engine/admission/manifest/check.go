package manifest

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Suffix ends the names of objects from manifests. The API refuses them.
const Suffix = ".static.k8s.io"

// checkName checks that a name is of those for manifests, and that no other object of the kind has it.
func (l *loading) checkName(k *Kind, name, path string) error {
	if name == "" {
		return fmt.Errorf("resource in file %q must have a name", path)
	}
	if !strings.HasSuffix(name, Suffix) {
		return fmt.Errorf("%q in file %q must have a name ending with %q", name, path, Suffix)
	}
	id := k.Name + "/" + name
	if before, ok := l.seen[id]; ok {
		return fmt.Errorf("duplicate name %q found in file %q (previously seen in %q)", name, path, before)
	}
	l.seen[id] = path
	return nil
}

// check refuses what depends on objects of the API: services and parameters.
func check(obj admission.Object, path string) error {
	switch c := obj.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			if err := checkClient(&c.Webhooks[i].ClientConfig, c.Webhooks[i].Name, c.Name, path); err != nil {
				return err
			}
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			if err := checkClient(&c.Webhooks[i].ClientConfig, c.Webhooks[i].Name, c.Name, path); err != nil {
				return err
			}
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		return checkPolicy("ValidatingAdmissionPolicy", c.Name, c.Spec.ParamKind)
	case *admissionv1.MutatingAdmissionPolicy:
		return checkPolicy("MutatingAdmissionPolicy", c.Name, c.Spec.ParamKind)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return checkBinding(c.Name, c.Spec.PolicyName, c.Spec.ParamRef)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return checkBinding(c.Name, c.Spec.PolicyName, c.Spec.ParamRef)
	}
	return nil
}

func checkClient(c *admissionv1.WebhookClientConfig, webhook, configuration, path string) error {
	if c.Service != nil {
		return fmt.Errorf("webhook %q in %q (file %q): clientConfig.service is not supported for static manifests; use clientConfig.url instead", webhook, configuration, path)
	}
	if c.URL == nil || *c.URL == "" {
		return fmt.Errorf("webhook %q in %q (file %q): clientConfig.url is required for static manifests", webhook, configuration, path)
	}
	return nil
}

func checkPolicy(kind, name string, params *admissionv1.ParamKind) error {
	if params != nil {
		return fmt.Errorf("%s %q: spec.paramKind is not supported for static manifests", kind, name)
	}
	return nil
}

func checkBinding(name, policy string, params *admissionv1.ParamRef) error {
	if policy == "" {
		return fmt.Errorf("binding %q must reference a policy (spec.policyName)", name)
	}
	if !strings.HasSuffix(policy, Suffix) {
		return fmt.Errorf("binding %q: spec.policyName %q must end with %q", name, policy, Suffix)
	}
	if params != nil {
		return fmt.Errorf("binding %q: spec.paramRef is not supported for static manifests", name)
	}
	return nil
}

// checkBindings checks that the policies of all bindings are in the directory.
func (l *loading) checkBindings() error {
	for _, k := range l.Kinds {
		for _, obj := range l.objects[k.Name] {
			var kind, policy string
			switch b := obj.(type) {
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				kind, policy = "ValidatingAdmissionPolicy", b.Spec.PolicyName
			case *admissionv1.MutatingAdmissionPolicyBinding:
				kind, policy = "MutatingAdmissionPolicy", b.Spec.PolicyName
			default:
				continue
			}
			if _, ok := l.seen[kind+"/"+policy]; !ok {
				return fmt.Errorf("binding %q references policy %q which does not exist in the manifest directory", obj.GetName(), policy)
			}
		}
	}
	return nil
}
