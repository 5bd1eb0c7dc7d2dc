package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

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
	registration = "/apis/admissionregistration.k8s.io/v1/"
	matching     = 20
	others       = 200
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
		if err := post(ctx, s, registration+"validatingadmissionpolicies", policy); err != nil {
			return nil, err
		}
		if err := post(ctx, s, registration+"validatingadmissionpolicybindings", binding); err != nil {
			return nil, err
		}
	}
	remove := func() error {
		return deleteAll(ctx, s, registration+"validatingadmissionpolicybindings", registration+"validatingadmissionpolicies")
	}
	return remove, side.Sleep(ctx, inForce)
}

// inForce is how long kube-apiserver may take until it goes by what was
// written, and to compile it.
const inForce = 5 * time.Second

// installWebhooks serves three webhooks in this process, whose processor time
// does not count.
func installWebhooks(ctx context.Context, s *side.Side) (func() error, error) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(review))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{}
	srv.StartTLS()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	hook := func(name, path string) string {
		return fmt.Sprintf(`{"name":"%s.example.com","clientConfig":{"url":"%s/%s","caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}],
			"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]}}`, name, srv.URL, path, ca)
	}
	for _, c := range []struct{ kind, path, hooks string }{
		{"MutatingWebhookConfiguration", "mutatingwebhookconfigurations", hook("label", "label")},
		{"ValidatingWebhookConfiguration", "validatingwebhookconfigurations", hook("a", "allow") + "," + hook("b", "allow")},
	} {
		body := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":"bench"},"webhooks":[%s]}`, c.kind, c.hooks)
		if err := post(ctx, s, registration+c.path, body); err != nil {
			srv.Close()
			return nil, err
		}
	}
	remove := func() error {
		defer srv.Close()
		return deleteAll(ctx, s, registration+"mutatingwebhookconfigurations", registration+"validatingwebhookconfigurations")
	}
	return remove, side.Sleep(ctx, inForce)
}

// review answers an AdmissionReview: yes, at /label with a label.
func review(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	patch := ""
	if r.URL.Path == "/label" {
		patch = `,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString(
			[]byte(`[{"op":"add","path":"/metadata/labels/hook","value":"yes"}]`)) + `"`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true%s}}`, in.Request.UID, patch)
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
	return side.Sleep(ctx, inForce)
}
