package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kanzen-io/kanzen/bench/side"
)

const admissionNamespace = "admission"

// admissionLoads are creations of pods that policies and webhooks have a say in.
func admissionLoads() []load {
	create := func(prefix string) func(int) side.Request {
		return func(i int) side.Request {
			return side.Request{Method: http.MethodPost, Path: "/api/v1/namespaces/" + admissionNamespace + "/pods?fieldManager=kube-controller-manager",
				ContentType: "application/json", Body: strings.Replace(podBody(i, admissionNamespace), podName(i), prefix+podName(i), 1)}
		}
	}
	return []load{
		{
			name: "create-plain", title: "create a pod, no policies", clients: 8, round: 500, warm: 200, request: create("plain-"),
			before: func(ctx context.Context, s *side.Side) (func() error, error) {
				return func() error { return nil }, namespaceWithAccount(ctx, s, admissionNamespace)
			},
		},
		{
			name: "create-policies", title: "create a pod, 20 validating policies that match and 200 that do not", clients: 8, round: 500, warm: 200,
			request: create("policy-"), before: installPolicies,
		},
		{
			name: "create-webhooks", title: "create a pod, a mutating and two validating webhooks", clients: 8, round: 300, warm: 100,
			request: create("webhook-"), before: installWebhooks,
		},
	}
}

// expressions are what such policies ask in clusters.
var expressions = []string{
	"object.spec.containers.all(c, !c.image.endsWith(':latest'))",
	"!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
	"object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
	"object.metadata.name.size() < 200",
	"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
}

const (
	matching = 20
	others   = 200
)

// installPolicies puts policies in force and returns what takes them away.
func installPolicies(ctx context.Context, s *side.Side) (func() error, error) {
	for i := range matching + others {
		group, resource := "", "pods"
		if i >= matching {
			group, resource = "batch", "jobs"
		}
		policy := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"bench-%d"},"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":[%q],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":[%q]}]},
			"variables":[{"name":"names","expression":"object.spec.containers.map(c, c.name)"}],
			"validations":[{"expression":%q,"messageExpression":"'not ' + object.metadata.name"},{"expression":"variables.names.size() > 0"}]}}`,
			i, group, resource, expressions[i%len(expressions)])
		binding := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"bench-%d"},
			"spec":{"policyName":"bench-%d","validationActions":["Deny"]}}`, i, i)
		if err := post(ctx, s, side.Registration+"validatingadmissionpolicies", policy); err != nil {
			return nil, err
		}
		if err := post(ctx, s, side.Registration+"validatingadmissionpolicybindings", binding); err != nil {
			return nil, err
		}
	}
	remove := func() error {
		return deleteAll(ctx, s, side.Registration+"validatingadmissionpolicybindings", side.Registration+"validatingadmissionpolicies")
	}
	return remove, side.Sleep(ctx, side.InForce)
}

// installWebhooks serves three webhooks in this process, whose processor time
// does not count.
func installWebhooks(ctx context.Context, s *side.Side) (func() error, error) {
	hooks := side.ServeWebhooks(func(r *http.Request) string {
		if r.URL.Path == "/label" {
			return `[{"op":"add","path":"/metadata/labels/hook","value":"yes"}]`
		}
		return ""
	})
	hook := func(name, path string) string {
		return fmt.Sprintf(`{"name":"%s.example.com","clientConfig":%s,"sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}],
			"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]}}`, name, hooks.ClientConfig(path))
	}
	for _, c := range []struct{ kind, path, hooks string }{
		{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations", hook("label", "label")},
		{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", hook("a", "allow") + "," + hook("b", "allow")},
	} {
		body := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":"bench"},"webhooks":[%s]}`, c.kind, c.hooks)
		if err := post(ctx, s, side.Registration+c.path, body); err != nil {
			hooks.Close()
			return nil, err
		}
	}
	remove := func() error {
		defer hooks.Close()
		return deleteAll(ctx, s, side.Registration+"mutatingwebhookconfigurations", side.Registration+"validatingwebhookconfigurations")
	}
	return remove, side.Sleep(ctx, side.InForce)
}

func post(ctx context.Context, s *side.Side, path, body string) error {
	c := s.Client()
	defer c.Close()
	return c.Create(ctx, path, body)
}

func deleteAll(ctx context.Context, s *side.Side, paths ...string) error {
	c := s.Client()
	defer c.Close()
	for _, p := range paths {
		if err := c.Do(ctx, side.Request{Method: http.MethodDelete, Path: p}, io.Discard); err != nil {
			return err
		}
	}
	return side.Sleep(ctx, side.InForce)
}
