//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// knative has some of its definitions in other modules, in the versions that its go.mod names: its config folder has links to them, which a module
// cannot have.
var knative = operator{
	name: "knative-serving",
	modules: []module{
		{path: "knative.dev/serving@v0.42.2"},
		{path: "knative.dev/networking@v0.0.0-20240716111826-bab7f2a3e556", folder: "third_party/networking"},
		{path: "knative.dev/caching@v0.0.0-20240716132144-989f54c83776", folder: "third_party/caching"},
	},
	programs: map[string]string{"controller": "./cmd/controller", "webhook": "./cmd/webhook", "autoscaler": "./cmd/autoscaler", "activator": "./cmd/activator"},
	install:  installKnative,
	leftOut: map[string]string{
		"requests, and scaling by them": "nodes say of a user's pods that they are ready; they do not run",
		"an ingress":                    "the steps say of ingresses that they are ready, as the controller of an ingress does",
		"conversion":                    "the definitions of this version have one version each",
	},
	steps: []step{
		{"its own authority is in the configurations of its webhooks", knativeInjected},
		{"a service gets defaults and its creator's name", serviceDefaulted},
		{"it becomes a configuration, a revision and a deployment, which is ready", revisionReady},
		{"when its ingress is ready, it is", serviceReady},
		{"a change makes another revision, which gets the traffic", serviceChanges},
		{"traffic is split, and a tag has an address of its own", trafficSplit},
		{"the webhook refuses a service that cannot be", serviceRefused},
		{"the webhook refuses a change of a revision", revisionKept},
		{"the webhook refuses a configuration of Knative's that does not parse", configRefused},
		{"a domain is mapped to a service", domainMapped},
		{"a service that is deleted takes all of it along", serviceGone},
	},
}

const serving = "serving.knative.dev/v1"

func installKnative(ctx context.Context, w *world) error {
	networking := "third_party/networking/config/"
	definitions, err := w.files("config/core/300-resources", networking+"certificate.yaml", networking+"domain-claim.yaml", networking+"ingress.yaml", networking+"serverlessservice.yaml", "third_party/caching/config/image.yaml")
	if err != nil {
		return err
	}
	core := "config/core/"
	rest, err := w.files(core+"100-namespace.yaml", core+"200-serviceaccount.yaml", core+"200-roles", core+"configmaps", networking+"config-network.yaml", core+"deployments", core+"webhooks", core+"999-cache.yaml")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "knative-serving", namespaceOf("apps")+definitions+rest); err != nil {
		return err
	}
	return w.available(ctx, "knative-serving")
}

func knativeInjected(ctx context.Context, w *world) error {
	for name, kind := range map[string]string{"config.webhook.serving.knative.dev": "Validating", "validation.webhook.serving.knative.dev": "Validating", "webhook.serving.knative.dev": "Mutating"} {
		if err := w.until(ctx, key{"admissionregistration.k8s.io/v1", kind + "WebhookConfiguration", name}, hasAuthority); err != nil {
			return err
		}
	}
	return nil
}

const helloService = `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello}
spec:
  template:
    metadata: {annotations: {autoscaling.knative.dev/min-scale: "1"}}
    spec: {containers: [{image: dev.local/hello:%s, env: [{name: WORD, value: %s}]}]}
%s`

var hello = key{serving, "Service", "apps/hello"}

func serviceDefaulted(ctx context.Context, w *world) error {
	if err := w.eventually(ctx, "create a service", func(ctx context.Context) error {
		return w.apply(ctx, "apps", fmt.Sprintf(helloService, "v1", "hello", ""))
	}); err != nil {
		return err
	}
	return w.until(ctx, hello, func(u *unstructured.Unstructured) error {
		if u.GetAnnotations()["serving.knative.dev/creator"] != "kubernetes-admin" {
			return fmt.Errorf("its annotations are %v", u.GetAnnotations())
		}
		return both(value("spec.template.spec.timeoutSeconds", 300), value("spec.template.spec.enableServiceLinks", false))(u)
	})
}

func revisionReady(ctx context.Context, w *world) error {
	if err := w.until(ctx, key{"apps/v1", "Deployment", "apps/hello-00001-deployment"}, value("status.readyReplicas", 1)); err != nil {
		return err
	}
	if err := w.until(ctx, key{serving, "Revision", "apps/hello-00001"}, condition("Ready", "True")); err != nil {
		return err
	}
	return w.until(ctx, key{serving, "Configuration", "apps/hello"}, both(condition("Ready", "True"), value("status.latestReadyRevisionName", "hello-00001")))
}

// readyIngress says that an ingress of Knative's is ready in its present generation, as the controller of its class does.
func (w *world) readyIngress(ctx context.Context, name string) error {
	balancer := map[string]any{"ingress": []any{map[string]any{"domainInternal": "gateway.apps.svc.cluster.local"}}}
	now := time.Now().UTC().Format(time.RFC3339)
	var conditions []any
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "lastTransitionTime": now})
	}
	return w.eventually(ctx, "the ingress "+name, func(ctx context.Context) error {
		u, err := w.get(ctx, key{"networking.internal.knative.dev/v1alpha1", "Ingress", "apps/" + name})
		if err != nil {
			return err
		}
		if err := errors.Join(value("status.observedGeneration", u.GetGeneration())(u), condition("Ready", "True")(u)); err == nil {
			return nil
		}
		u.Object["status"] = map[string]any{"observedGeneration": u.GetGeneration(), "conditions": conditions, "publicLoadBalancer": balancer, "privateLoadBalancer": balancer}
		return w.client.Status().Update(ctx, u)
	})
}

// served waits until a service is ready with a revision, and answers for its ingress meanwhile.
func (w *world) served(ctx context.Context, revision string, more ...func(*unstructured.Unstructured) error) error {
	return w.eventually(ctx, "service hello", func(ctx context.Context) error {
		if err := w.readyIngress(ctx, "hello"); err != nil {
			return err
		}
		u, err := w.get(ctx, hello)
		if err != nil {
			return err
		}
		if err := both(condition("Ready", "True"), value("status.latestReadyRevisionName", revision), value("status.observedGeneration", u.GetGeneration()))(u); err != nil {
			return err
		}
		return both(more...)(u)
	})
}

func serviceReady(ctx context.Context, w *world) error {
	return w.served(ctx, "hello-00001", value("status.url", "http://hello.apps.svc.cluster.local"))
}

func serviceChanges(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "apps", fmt.Sprintf(helloService, "v2", "goodbye", "")); err != nil {
		return err
	}
	return w.served(ctx, "hello-00002", routed("hello-00002", 100))
}

// routed asks whether a revision gets so many percent of the traffic.
func routed(revision string, percent int64) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "traffic")
		for _, t := range list {
			if t := t.(map[string]any); t["revisionName"] == revision && t["percent"] == percent {
				return nil
			}
		}
		return fmt.Errorf("the traffic is %v", list)
	}
}

func trafficSplit(ctx context.Context, w *world) error {
	split := "  traffic:\n  - {revisionName: hello-00001, percent: 25, tag: old}\n  - {latestRevision: true, percent: 75}\n"
	if err := w.apply(ctx, "apps", fmt.Sprintf(helloService, "v2", "goodbye", split)); err != nil {
		return err
	}
	if err := w.served(ctx, "hello-00002", routed("hello-00001", 25), routed("hello-00002", 75)); err != nil {
		return err
	}
	return w.until(ctx, key{"v1", "Service", "apps/old-hello"}, value("spec.type", "ExternalName"))
}

func serviceRefused(ctx context.Context, w *world) error {
	return w.refused(ctx, "apps", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: bad}\nspec: {template: {spec: {containerConcurrency: -1, containers: [{image: dev.local/x}]}}}", "expected 0 <= -1 <= 1000")
}

func revisionKept(ctx context.Context, w *world) error {
	revision := key{serving, "Revision", "apps/hello-00001"}
	err := w.change(ctx, revision, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, int64(17), "spec", "timeoutSeconds")
	})
	return refusedWith(err, "Immutable fields changed")
}

func configRefused(ctx context.Context, w *world) error {
	err := w.change(ctx, key{"v1", "ConfigMap", "knative-serving/config-autoscaler"}, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "many", "data", "max-scale")
	})
	return refusedWith(err, "max-scale")
}

func domainMapped(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "apps", `
apiVersion: networking.internal.knative.dev/v1alpha1
kind: ClusterDomainClaim
metadata: {name: hello.example.com}
spec: {namespace: apps}
---
apiVersion: serving.knative.dev/v1beta1
kind: DomainMapping
metadata: {name: hello.example.com}
spec: {ref: {name: hello, kind: Service, apiVersion: serving.knative.dev/v1}}`); err != nil {
		return err
	}
	if err := w.readyIngress(ctx, "hello.example.com"); err != nil {
		return err
	}
	return w.until(ctx, key{"serving.knative.dev/v1beta1", "DomainMapping", "apps/hello.example.com"}, both(condition("Ready", "True"), value("status.url", "http://hello.example.com")))
}

func serviceGone(ctx context.Context, w *world) error {
	if err := w.client.Delete(ctx, hello.named(), client.PropagationPolicy("Foreground")); err != nil {
		return err
	}
	for _, k := range []key{{serving, "Route", "apps/hello"}, {serving, "Revision", "apps/hello-00002"}, {"apps/v1", "Deployment", "apps/hello-00002-deployment"},
		{"networking.internal.knative.dev/v1alpha1", "Ingress", "apps/hello"}, hello} {
		if err := w.gone(ctx, k); err != nil {
			return err
		}
	}
	return nil
}
