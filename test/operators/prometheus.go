//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kanzen-io/kanzen/test/machine"
)

var prometheusOperator = operator{
	name: "prometheus-operator",
	modules: []module{
		{path: "github.com/prometheus-operator/prometheus-operator@v0.85.0"},
		{path: "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring@v0.85.0", folder: "pkg/apis/monitoring"},
		{path: "github.com/prometheus-operator/prometheus-operator/pkg/client@v0.85.0", folder: "pkg/client"},
	},
	programs: map[string]string{"prometheus-operator": "./cmd/operator", "admission-webhook": "./cmd/admission-webhook"},
	install:  installPrometheusOperator,
	leftOut:  map[string]string{"Prometheus, Alertmanager": "they are not run: nodes say of their pods that they are ready"},
	steps: []step{
		{"a Prometheus becomes a stateful set, whose pods make it available", prometheusAvailable},
		{"a service monitor is in the configuration", serviceMonitored},
		{"pod monitors, probes and scrape configurations are in it too", allMonitored},
		{"a monitor that goes leaves the configuration", unmonitored},
		{"rules get to Prometheus", rulesLoaded},
		{"the webhook refuses a rule that does not parse", ruleRefused},
		{"the webhook writes numbers in rules as text", ruleMended},
		{"a Prometheus is scaled by its subresource", shardsScaled},
		{"an Alertmanager becomes a stateful set with its configuration", alertmanagerAvailable},
		{"an alertmanager configuration is read in its other version", alertsConverted},
		{"the webhook refuses an alertmanager configuration without its receiver", alertsRefused},
		{"a ThanosRuler becomes a stateful set", thanosAvailable},
		{"a Prometheus that is deleted takes its stateful sets along", prometheusGone},
	},
}

const monitoring = "monitoring.coreos.com/v1"

// installPrometheusOperator does what its documentation says: the bundle, the webhook, a certificate for it from an authority, which is written
// into the configurations that the operator's own tests have, and into the definition that is converted.
func installPrometheusOperator(ctx context.Context, w *world) error {
	authority, err := w.servingSecret(ctx, "default", "admission-webhook-certs", "prometheus-operator-admission-webhook")
	if err != nil {
		return err
	}
	hook := "example/admission-webhook/"
	manifests, err := w.files("bundle.yaml", "example/prometheus-operator-crd-full/monitoring.coreos.com_alertmanagerconfigs.yaml", hook+"service-account.yaml", hook+"deployment.yaml", hook+"service.yaml")
	if err != nil {
		return err
	}
	if err := w.install(ctx, "default", namespaceOf("shop")+manifests); err != nil {
		return err
	}
	if err := w.available(ctx, "default"); err != nil {
		return err
	}
	resources := "test/framework/resources/"
	webhooks, err := w.files(resources+"prometheus-operator-validatingwebhook.yaml", resources+"prometheus-operator-mutatingwebhook.yaml", resources+"alertmanager-config-validating-webhook.yaml")
	if err != nil {
		return err
	}
	objects, err := read(webhooks)
	if err != nil {
		return err
	}
	for _, o := range objects {
		list, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, h := range list {
			h.(map[string]any)["clientConfig"].(map[string]any)["caBundle"] = authority
		}
		if err := unstructured.SetNestedSlice(o.Object, list, "webhooks"); err != nil {
			return err
		}
		if err := w.applyObject(ctx, "", o); err != nil {
			return err
		}
	}
	return w.change(ctx, key{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "alertmanagerconfigs.monitoring.coreos.com"}, func(u *unstructured.Unstructured) error {
		service := map[string]any{"name": "prometheus-operator-admission-webhook", "namespace": "default", "path": "/convert"}
		webhook := map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": service, "caBundle": authority}}
		return unstructured.SetNestedField(u.Object, map[string]any{"strategy": "Webhook", "webhook": webhook}, "spec", "conversion")
	})
}

// servingSecret makes a secret with a serving certificate of a service, and returns the authority as configurations want it.
func (w *world) servingSecret(ctx context.Context, namespace, name, service string) (caBundle string, err error) {
	base := filepath.Join(w.l.Run(), "pki", name)
	ca, err := machine.NewAuthority(base+"-ca", name)
	if err != nil {
		return "", err
	}
	if err := ca.Issue(base, &x509.Certificate{DNSNames: []string{service + "." + namespace + ".svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return "", err
	}
	s := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{}}
	s.Name = name
	var authority []byte
	for path, into := range map[string]func([]byte){
		base + ".crt": func(b []byte) { s.Data["tls.crt"] = b }, base + ".key": func(b []byte) { s.Data["tls.key"] = b }, base + "-ca.crt": func(b []byte) { authority = b },
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		into(b)
	}
	_, err = w.kube.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
	return base64.StdEncoding.EncodeToString(authority), err
}

const prometheus = `
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: main}
spec:
  replicas: 2
  shards: 1
  serviceAccountName: default
  serviceMonitorSelector: {}
  podMonitorSelector: {}
  probeSelector: {}
  scrapeConfigSelector: {}
  ruleSelector: {}`

func prometheusAvailable(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", prometheus); err != nil {
		return err
	}
	if err := w.until(ctx, mainPrometheus, both(condition("Available", "True"), condition("Reconciled", "True"), value("status.availableReplicas", 2))); err != nil {
		return err
	}
	return w.until(ctx, key{"apps/v1", "StatefulSet", "shop/prometheus-main"}, value("status.readyReplicas", 2))
}

var mainPrometheus = key{monitoring, "Prometheus", "shop/main"}

// configured waits until the configuration of Prometheus has all words, or has none of them.
func (w *world) configured(ctx context.Context, has bool, words ...string) error {
	return w.secretHas(ctx, "prometheus-main", "prometheus.yaml.gz", has, words...)
}

func (w *world) secretHas(ctx context.Context, secret, file string, has bool, words ...string) error {
	return w.eventually(ctx, "secret "+secret, func(ctx context.Context) error {
		s, err := w.secret(ctx, "shop", secret)
		if err != nil {
			return err
		}
		zipped, err := gzip.NewReader(bytes.NewReader(s.Data[file]))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(zipped)
		if err != nil {
			return err
		}
		for _, word := range words {
			if strings.Contains(string(text), word) != has {
				return fmt.Errorf("that it has %q is not %v", word, has)
			}
		}
		return nil
	})
}

func serviceMonitored(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  endpoints: [{port: metrics, interval: 15s, basicAuth: {username: {name: login, key: user}, password: {name: login, key: password}}}]
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: ann, password: secret-word}`); err != nil {
		return err
	}
	return w.configured(ctx, true, "job_name: serviceMonitor/shop/web/0", "scrape_interval: 15s", "username: ann")
}

func allMonitored(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: pods}
spec: {selector: {}, podMetricsEndpoints: [{port: metrics}]}
---
apiVersion: monitoring.coreos.com/v1
kind: Probe
metadata: {name: site}
spec: {prober: {url: prober.example.com}, targets: {staticConfig: {static: [www.example.com]}}}
---
apiVersion: monitoring.coreos.com/v1alpha1
kind: ScrapeConfig
metadata: {name: static}
spec: {staticConfigs: [{targets: ["machine.example.com:9100"]}]}`); err != nil {
		return err
	}
	return w.configured(ctx, true, "job_name: podMonitor/shop/pods/0", "job_name: probe/shop/site", "job_name: scrapeConfig/shop/static", "machine.example.com:9100")
}

func unmonitored(ctx context.Context, w *world) error {
	if err := w.delete(ctx, key{monitoring, "ServiceMonitor", "shop/web"}); err != nil {
		return err
	}
	return w.configured(ctx, false, "serviceMonitor/shop/web")
}

const rule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: %s}
spec: {groups: [{name: g, rules: [{alert: Down, expr: %q, for: 5m, labels: {level: %s}}]}]}`

func rulesLoaded(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", fmt.Sprintf(rule, "good", "up == 0", "page")); err != nil {
		return err
	}
	return w.until(ctx, key{"v1", "ConfigMap", "shop/prometheus-main-rulefiles-0"}, func(u *unstructured.Unstructured) error {
		files, _, _ := unstructured.NestedStringMap(u.Object, "data")
		for name, text := range files {
			if strings.HasPrefix(name, "shop-good-") && strings.Contains(text, "up == 0") {
				return nil
			}
		}
		return fmt.Errorf("the files are %v", files)
	})
}

func ruleRefused(ctx context.Context, w *world) error {
	return w.refused(ctx, "shop", fmt.Sprintf(rule, "bad", "sum(up", "page"), "Rules are not valid")
}

// ruleMended creates a rule with a label that is a number, which the definition does not allow.
func ruleMended(ctx context.Context, w *world) error {
	objects, err := read(fmt.Sprintf(rule, "numbers", "up == 0", "7"))
	if err != nil {
		return err
	}
	u := objects[0]
	u.SetNamespace("shop")
	if err := w.client.Create(ctx, u); err != nil {
		return err
	}
	if u.GetAnnotations()["prometheus-operator-validated"] != "true" {
		return fmt.Errorf("its annotations are %v", u.GetAnnotations())
	}
	if text := fmt.Sprintf("%q", u.Object["spec"]); !strings.Contains(text, `"level":"7"`) {
		return errors.New(text)
	}
	return nil
}

func shardsScaled(ctx context.Context, w *world) error {
	u, err := w.get(ctx, mainPrometheus)
	if err != nil {
		return err
	}
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	if err := w.client.SubResource("scale").Get(ctx, u, scale); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(scale.Object, int64(2), "spec", "replicas"); err != nil {
		return err
	}
	if err := w.client.SubResource("scale").Update(ctx, u, client.WithSubResourceBody(scale)); err != nil {
		return err
	}
	if err := w.until(ctx, mainPrometheus, both(value("spec.shards", 2), value("status.shards", 2), condition("Available", "True"))); err != nil {
		return err
	}
	return w.until(ctx, key{"apps/v1", "StatefulSet", "shop/prometheus-main-shard-1"}, value("status.readyReplicas", 2))
}

func alertmanagerAvailable(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: monitoring.coreos.com/v1
kind: Alertmanager
metadata: {name: main}
spec: {replicas: 1, alertmanagerConfigSelector: {}}
---
apiVersion: monitoring.coreos.com/v1alpha1
kind: AlertmanagerConfig
metadata: {name: team}
spec:
  route: {receiver: hook, groupBy: [job], matchers: [{name: level, value: page, matchType: "="}]}
  receivers: [{name: hook, webhookConfigs: [{url: "http://hook.example.com/"}]}]`); err != nil {
		return err
	}
	if err := w.until(ctx, key{monitoring, "Alertmanager", "shop/main"}, both(condition("Available", "True"), condition("Reconciled", "True"))); err != nil {
		return err
	}
	return w.secretHas(ctx, "alertmanager-main-generated", "alertmanager.yaml.gz", true, "receiver: shop/team/hook", `level="page"`, `namespace="shop"`)
}

// alertsConverted reads and writes in versions that have other names for time intervals.
func alertsConverted(ctx context.Context, w *world) error {
	u, err := w.get(ctx, key{"monitoring.coreos.com/v1beta1", "AlertmanagerConfig", "shop/team"})
	if err != nil {
		return err
	}
	receivers, _, _ := unstructured.NestedSlice(u.Object, "spec", "receivers")
	if text := fmt.Sprint(receivers); !strings.Contains(text, "http://hook.example.com/") {
		return errors.New(text)
	}
	if err := w.apply(ctx, "shop", `
apiVersion: monitoring.coreos.com/v1beta1
kind: AlertmanagerConfig
metadata: {name: newer}
spec:
  route: {receiver: hook}
  timeIntervals: [{name: nights, timeIntervals: [{times: [{startTime: "00:00", endTime: "06:00"}]}]}]
  receivers: [{name: hook, webhookConfigs: [{url: "http://newer.example.com/"}]}]
`); err != nil {
		return err
	}
	return w.until(ctx, key{"monitoring.coreos.com/v1alpha1", "AlertmanagerConfig", "shop/newer"}, func(u *unstructured.Unstructured) error {
		intervals, _, _ := unstructured.NestedSlice(u.Object, "spec", "muteTimeIntervals")
		if len(intervals) != 1 || intervals[0].(map[string]any)["name"] != "nights" {
			return fmt.Errorf("its spec is %v", u.Object["spec"])
		}
		return nil
	})
}

func alertsRefused(ctx context.Context, w *world) error {
	return w.refused(ctx, "shop", "apiVersion: monitoring.coreos.com/v1alpha1\nkind: AlertmanagerConfig\nmetadata: {name: bad}\nspec: {route: {receiver: nobody}, receivers: [{name: hook}]}", "AlertmanagerConfig is invalid")
}

func thanosAvailable(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "shop", `
apiVersion: monitoring.coreos.com/v1
kind: ThanosRuler
metadata: {name: rules}
spec: {replicas: 1, image: quay.io/thanos/thanos:v0.39.2, queryEndpoints: ["query.example.com:80"], ruleSelector: {}}`); err != nil {
		return err
	}
	return w.until(ctx, key{monitoring, "ThanosRuler", "shop/rules"}, both(condition("Available", "True"), condition("Reconciled", "True")))
}

func prometheusGone(ctx context.Context, w *world) error {
	if err := w.delete(ctx, mainPrometheus); err != nil {
		return err
	}
	for _, name := range []string{"prometheus-main", "prometheus-main-shard-1"} {
		if err := w.gone(ctx, key{"apps/v1", "StatefulSet", "shop/" + name}); err != nil {
			return err
		}
	}
	return w.gone(ctx, key{"v1", "Pod", "shop/prometheus-main-0"})
}
