//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pushAndTell pushes files and says so to Argo CD, as GitHub does. It returns the commit.
func (w *world) pushAndTell(ctx context.Context, message string, files map[string]string) (commit string, err error) {
	if commit, err = w.push(ctx, message, files); err != nil {
		return "", err
	}
	address, err := w.argoServer(ctx)
	if err != nil {
		return "", err
	}
	event := fmt.Sprintf(`{"ref": "refs/heads/main", "after": %q, "repository": {"html_url": %q, "default_branch": "main"}}`, commit, strings.TrimSuffix(gitURL, ".git"))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/api/webhook", strings.NewReader(event))
	if err != nil {
		return "", err
	}
	request.Header.Set("X-GitHub-Event", "push")
	request.Header.Set("Content-Type", "application/json")
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		return "", fmt.Errorf("the webhook answers %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return commit, nil
}

var argoSettings = key{"v1", "ConfigMap", "team-manifests/settings"}

func pushSynced(ctx context.Context, w *world) error {
	commit, err := w.pushAndTell(ctx, "another word", map[string]string{"manifests/settings.yaml": argoConfigMap("settings", "0", "word: goodbye")})
	if err != nil {
		return err
	}
	if err := w.until(ctx, argoSettings, value("data.word", "goodbye")); err != nil {
		return err
	}
	return w.synced(ctx, "manifests", value("status.sync.revision", commit))
}

func changeUndone(ctx context.Context, w *world) error {
	if err := w.change(ctx, argoSettings, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "nonsense", "data", "word")
	}); err != nil {
		return err
	}
	web := key{"apps/v1", "Deployment", "team-manifests/web"}
	if err := w.delete(ctx, web); err != nil {
		return err
	}
	if err := w.until(ctx, argoSettings, value("data.word", "goodbye")); err != nil {
		return err
	}
	if err := w.until(ctx, web, value("status.availableReplicas", 2)); err != nil {
		return err
	}
	return w.synced(ctx, "manifests")
}

func removedPruned(ctx context.Context, w *world) error {
	old := key{"v1", "ConfigMap", "team-manifests/old"}
	if _, err := w.get(ctx, old); err != nil {
		return err
	}
	commit, err := w.pushAndTell(ctx, "without the old", map[string]string{"manifests/old.yaml": ""})
	if err != nil {
		return err
	}
	if err := w.gone(ctx, old); err != nil {
		return err
	}
	return w.synced(ctx, "manifests", value("status.sync.revision", commit))
}

func refusalTold(ctx context.Context, w *world) error {
	// Without a limit the mended one would wait for the next of a few tries.
	if err := w.apply(ctx, "", argoApplicationOf("refused", "syncPolicy: {", "syncPolicy: {retry: {limit: 0}, ")); err != nil {
		return err
	}
	if err := w.until(ctx, argoKey("refused"), func(u *unstructured.Unstructured) error {
		if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, "spec.ports[0].port: Invalid value: 123456: must be between 1 and 65535") {
			return fmt.Errorf("its status is %s", text)
		}
		return nil
	}); err != nil {
		return err
	}
	commit, err := w.pushAndTell(ctx, "a port that there is", map[string]string{"refused/web.yaml": strings.ReplaceAll(argoFiles["refused/web.yaml"], "123456", "12345")})
	if err != nil {
		return err
	}
	return w.synced(ctx, "refused", value("status.sync.revision", commit))
}

func wavesOrdered(ctx context.Context, w *world) error {
	const namespace = "team-waves"
	if err := w.apply(ctx, "", argoApplicationOf("waves")); err != nil {
		return err
	}
	if err := w.until(ctx, key{"batch/v1", "Job", namespace + "/before"}, value("status.active", 1)); err != nil {
		return err
	}
	if _, err := w.get(ctx, key{"v1", "ConfigMap", namespace + "/first"}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the first wave does not wait for the job: %w", err)
	}
	if err := w.finish(ctx, namespace, "before"); err != nil {
		return err
	}
	if err := w.finish(ctx, namespace, "after"); err != nil {
		return err
	}
	if err := w.synced(ctx, "waves"); err != nil {
		return err
	}
	for _, name := range []string{"before", "after"} {
		if err := w.gone(ctx, key{"batch/v1", "Job", namespace + "/" + name}); err != nil {
			return err
		}
	}
	web, err := w.kube.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var made [2]metav1.Time
	for i, name := range []string{"first", "last"} {
		m, err := w.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		made[i] = m.CreationTimestamp
	}
	for _, c := range web.Status.Conditions {
		if c.Type == "Available" && !web.CreationTimestamp.Before(&made[0]) && !made[1].Before(&c.LastTransitionTime) {
			return nil
		}
	}
	return fmt.Errorf("the first was made at %v, the deployment at %v with the conditions %v, and the last at %v", made[0], web.CreationTimestamp, web.Status.Conditions, made[1])
}

var argoWidget = key{"example.org/v1", "Widget", "team-definition/one"}

func definitionSynced(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", argoApplicationOf("definition")); err != nil {
		return err
	}
	if err := w.synced(ctx, "definition"); err != nil {
		return err
	}
	return w.until(ctx, argoWidget, both(value("spec.size", 3), value("spec.color", "red"))) // a default is no difference
}

// argoConfigure sets a key of Argo CD's own configuration, or removes it.
func (w *world) argoConfigure(ctx context.Context, name, field, text string) error {
	return w.change(ctx, key{"v1", "ConfigMap", "argocd/" + name}, func(u *unstructured.Unstructured) error {
		if text == "" {
			unstructured.RemoveNestedField(u.Object, "data", field)
			return nil
		}
		return unstructured.SetNestedField(u.Object, text, "data", field)
	})
}

func healthScripted(ctx context.Context, w *world) error {
	if err := w.argoConfigure(ctx, "argocd-cm", "resource.customizations.health.example.org_Widget", `
if obj.status ~= nil and obj.status.phase == "Done" then return {status = "Healthy"} end
return {status = "Progressing", message = "it is not done"}`); err != nil {
		return err
	}
	// Applications that are there already are looked at again when something happens, or somebody asks.
	if err := w.eventually(ctx, "the health", func(ctx context.Context) error {
		if _, err := w.argocd(ctx, "app", "get", "definition", "--refresh"); err != nil {
			return err
		}
		u, err := w.get(ctx, argoKey("definition"))
		if err != nil {
			return err
		}
		return value("status.health.status", "Progressing")(u)
	}); err != nil {
		return err
	}
	if err := w.eventually(ctx, "the status of the widget", func(ctx context.Context) error {
		u, err := w.get(ctx, argoWidget)
		if err != nil {
			return err
		}
		u.Object["status"] = map[string]any{"phase": "Done"}
		return w.client.Status().Update(ctx, u)
	}); err != nil {
		return err
	}
	return w.synced(ctx, "definition")
}

func rolledBack(ctx context.Context, w *world) error {
	manifest := argoApplicationOf("manual", "automated: {prune: true, selfHeal: true}, ", "")
	if err := w.apply(ctx, "", manifest); err != nil {
		return err
	}
	if err := w.until(ctx, argoKey("manual"), both(value("status.sync.status", "OutOfSync"), value("status.health.status", "Missing"))); err != nil {
		return err
	}
	settings := key{"v1", "ConfigMap", "team-manual/settings"}
	if _, err := w.argocd(ctx, "app", "sync", "manual"); err != nil {
		return err
	}
	if err := w.until(ctx, settings, value("data.word", "hello")); err != nil {
		return err
	}
	if _, err := w.push(ctx, "a word", map[string]string{"manual/settings.yaml": argoConfigMap("settings", "0", "word: later")}); err != nil {
		return err
	}
	// It ends with 1 if there is a difference.
	out, err := w.argocd(ctx, "app", "diff", "manual", "--refresh")
	if err == nil || !strings.Contains(out, "later") {
		return fmt.Errorf("the difference is %q: %w", out, err)
	}
	if _, err := w.argocd(ctx, "app", "sync", "manual"); err != nil {
		return err
	}
	if err := w.until(ctx, settings, value("data.word", "later")); err != nil {
		return err
	}
	if _, err := w.argocd(ctx, "app", "rollback", "manual", "0"); err != nil {
		return err
	}
	if err := w.until(ctx, settings, value("data.word", "hello")); err != nil {
		return err
	}
	return w.until(ctx, argoKey("manual"), value("status.sync.status", "OutOfSync"))
}

func actionRun(ctx context.Context, w *world) error {
	if _, err := w.argocd(ctx, "app", "actions", "run", "manifests", "restart", "--kind", "Deployment", "--resource-name", "web"); err != nil {
		return err
	}
	return w.until(ctx, key{"apps/v1", "Deployment", "team-manifests/web"}, both(value("metadata.generation", 2), value("status.observedGeneration", 2), value("status.updatedReplicas", 2), value("status.availableReplicas", 2)))
}

func messageSent(ctx context.Context, w *world) error {
	for field, text := range map[string]string{
		"service.webhook.team": "url: " + hookURL,
		"template.synced":      `webhook: {team: {method: POST, body: "{{.app.metadata.name}} is {{.app.status.sync.status}} at {{.app.status.sync.revision}}"}}`,
		"trigger.on-synced":    "- when: app.status?.operationState.phase in ['Succeeded']\n  oncePer: app.status?.operationState?.syncResult?.revision\n  send: [synced]",
	} {
		if err := w.argoConfigure(ctx, "argocd-notifications-cm", field, text); err != nil {
			return err
		}
	}
	if err := w.change(ctx, argoKey("manifests"), func(u *unstructured.Unstructured) error {
		u.SetAnnotations(map[string]string{"notifications.argoproj.io/subscribe.on-synced.team": ""})
		return nil
	}); err != nil {
		return err
	}
	commit, err := w.pushAndTell(ctx, "a last word", map[string]string{"manifests/settings.yaml": argoConfigMap("settings", "0", "word: farewell")})
	if err != nil {
		return err
	}
	return w.eventually(ctx, "the message", func(context.Context) error {
		got, err := w.messages()
		if err == nil && !strings.Contains(got, "manifests is Synced at "+commit) {
			err = fmt.Errorf("the messages are %q", got)
		}
		return err
	})
}

// argoSet makes an application for each element of a list, and for each folder of the fleet.
const argoSet = `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: fleet, namespace: argocd}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators:
  - list: {elements: [%s]}
  - git: {repoURL: "` + gitURL + `", revision: main, directories: [{path: fleet/*}]}
  template:
    metadata: {name: "fleet-{{.path.basename}}"}
    spec:
      project: team
      source: {repoURL: "` + gitURL + `", targetRevision: main, path: "{{.path.path}}"}
      destination: {server: https://kubernetes.default.svc, namespace: "team-{{.path.basename}}"}
      syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}`

func setGenerates(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", fmt.Sprintf(argoSet, "{path: {basename: listed, path: manual}}")); err != nil {
		return err
	}
	for name, settings := range map[string]string{"listed": "settings", "north": "north", "south": "south"} {
		if err := w.synced(ctx, "fleet-"+name); err != nil {
			return err
		}
		if _, err := w.get(ctx, key{"v1", "ConfigMap", "team-" + name + "/" + settings}); err != nil {
			return err
		}
	}
	if err := w.until(ctx, key{argoVersion, "ApplicationSet", "argocd/fleet"}, condition("ResourcesUpToDate", "True")); err != nil {
		return err
	}
	if err := w.apply(ctx, "", fmt.Sprintf(argoSet, "")); err != nil {
		return err
	}
	if err := w.gone(ctx, argoKey("fleet-listed")); err != nil {
		return err
	}
	if err := w.gone(ctx, key{"v1", "ConfigMap", "team-listed/settings"}); err != nil {
		return err
	}
	if err := w.delete(ctx, key{argoVersion, "ApplicationSet", "argocd/fleet"}); err != nil {
		return err
	}
	return w.gone(ctx, argoKey("fleet-north"))
}

const argoSyncer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: syncer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: syncer}
rules: [{apiGroups: [""], resources: [configmaps%s], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: syncer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: syncer}
subjects: [{kind: ServiceAccount, name: syncer, namespace: team-own}]`

// syncImpersonates has a service account that may write config maps, but secrets only later.
func syncImpersonates(ctx context.Context, w *world) (err error) {
	if err := w.apply(ctx, "team-own", namespaceOf("team-own")+fmt.Sprintf(argoSyncer, "")+"\n---"+argoProject+"\n  destinationServiceAccounts: [{server: https://kubernetes.default.svc, namespace: team-own, defaultServiceAccount: syncer}]"); err != nil {
		return err
	}
	const setting = "application.sync.impersonation.enabled"
	if err := w.argoConfigure(ctx, "argocd-cm", setting, "true"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.argoConfigure(ctx, "argocd-cm", setting, "")) }()
	if err := w.apply(ctx, "", argoApplicationOf("own", "syncOptions: [CreateNamespace=true]", "retry: {limit: 0}")); err != nil {
		return err
	}
	if err := w.until(ctx, argoKey("own"), func(u *unstructured.Unstructured) error {
		if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, `User "system:serviceaccount:team-own:syncer" cannot get resource "secrets"`) {
			return fmt.Errorf("its status is %s", text)
		}
		return value("status.operationState.phase", "Failed")(u)
	}); err != nil {
		return err
	}
	if err := w.apply(ctx, "team-own", fmt.Sprintf(argoSyncer, ", secrets")); err != nil {
		return err
	}
	if _, err := w.argocd(ctx, "app", "sync", "own"); err != nil {
		return err
	}
	return w.synced(ctx, "own")
}

func applicationsGone(ctx context.Context, w *world) error {
	if err := w.change(ctx, argoKey("chart"), func(u *unstructured.Unstructured) error {
		u.SetFinalizers(nil)
		return nil
	}); err != nil {
		return err
	}
	for _, name := range []string{"manifests", "definition", "chart"} {
		if err := w.delete(ctx, argoKey(name)); err != nil {
			return err
		}
	}
	if _, err := w.argocd(ctx, "app", "delete", "kustomization", "--cascade", "--yes"); err != nil {
		return err
	}
	for _, name := range []string{"manifests", "definition", "chart", "kustomization"} {
		if err := w.gone(ctx, argoKey(name)); err != nil {
			return err
		}
	}
	for _, k := range []key{{"apps/v1", "Deployment", "team-manifests/web"}, {"apps/v1", "Deployment", "team-kustomization/production-web"}, argoWidget} {
		if err := w.gone(ctx, k); err != nil {
			return err
		}
	}
	// Argo CD never deletes a definition with its application.
	for _, k := range []key{{"apps/v1", "Deployment", "team-chart/shop-web"}, {"apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.org"}} {
		if _, err := w.get(ctx, k); err != nil {
			return err
		}
	}
	return nil
}
