//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serverSide has the objects of an application applied, and compared, by the server.
var serverSide = []string{"[CreateNamespace=true]", "[CreateNamespace=true, ServerSideApply=true]", "metadata: {", "metadata: {annotations: {argocd.argoproj.io/compare-options: ServerSideDiff=true}, "}

// managedBy asks whether a manager has fields of an object.
func managedBy(manager string, operation metav1.ManagedFieldsOperationType, want bool) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		has := false
		for _, m := range u.GetManagedFields() {
			has = has || m.Manager == manager && m.Operation == operation
		}
		if has != want {
			return fmt.Errorf("its managers are %v", u.GetManagedFields())
		}
		return nil
	}
}

func serverSideApplied(ctx context.Context, w *world) error {
	settings := key{"v1", "ConfigMap", "team-shared/settings"}
	if err := w.apply(ctx, "team-shared", namespaceOf("team-shared")+"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {own: mine}"); err != nil {
		return err
	}
	if err := w.apply(ctx, "", argoApplicationOf("shared", serverSide...)); err != nil {
		return err
	}
	words := both(value("data.word", "hello"), value("data.own", "mine"))
	if err := w.until(ctx, settings, words); err != nil {
		return err
	}
	if err := w.synced(ctx, "shared"); err != nil {
		return err
	}
	if err := w.until(ctx, settings, managedBy("argocd-controller", metav1.ManagedFieldsOperationApply, true)); err != nil {
		return err
	}
	if err := w.change(ctx, settings, func(u *unstructured.Unstructured) error {
		u.Object["data"] = map[string]any{"word": "nonsense", "own": "still mine"}
		return nil
	}); err != nil {
		return err
	}
	if err := w.until(ctx, settings, both(value("data.word", "hello"), value("data.own", "still mine"))); err != nil {
		return err
	}
	return w.synced(ctx, "shared")
}

// clientSideTaken has an object that kubectl has applied without the server's help: a field that is no longer in the manifest must go.
func clientSideTaken(ctx context.Context, w *world) error {
	const kubectl = "kubectl-client-side-apply"
	if err := w.apply(ctx, "", namespaceOf("team-taken")); err != nil {
		return err
	}
	objects, err := read(argoConfigMap("settings", "0", "word: hello, former: gone"))
	if err != nil {
		return err
	}
	objects[0].SetNamespace("team-taken")
	if err := w.client.Create(ctx, objects[0], client.FieldOwner(kubectl)); err != nil {
		return err
	}
	if err := w.apply(ctx, "", argoApplicationOf("taken", serverSide...)); err != nil {
		return err
	}
	if err := w.synced(ctx, "taken"); err != nil {
		return err
	}
	return w.until(ctx, key{"v1", "ConfigMap", "team-taken/settings"}, both(managedBy(kubectl, metav1.ManagedFieldsOperationUpdate, false), managedBy("argocd-controller", metav1.ManagedFieldsOperationApply, true),
		func(u *unstructured.Unstructured) error {
			if data, _, _ := unstructured.NestedStringMap(u.Object, "data"); len(data) != 1 || data["word"] != "hello" {
				return fmt.Errorf("it has %v", data)
			}
			return nil
		}))
}

// scalerRespected has somebody else, who is named in the application, say how many replicas a deployment has.
func scalerRespected(ctx context.Context, w *world) error {
	ignoring := "project: team\n  ignoreDifferences: [{group: apps, kind: Deployment, managedFieldsManagers: [scaler]}]"
	if err := w.apply(ctx, "", argoApplicationOf("scaled", "project: team", ignoring, "[CreateNamespace=true]", "[CreateNamespace=true, RespectIgnoreDifferences=true]")); err != nil {
		return err
	}
	if err := w.synced(ctx, "scaled"); err != nil {
		return err
	}
	web := key{"apps/v1", "Deployment", "team-scaled/web"}
	if err := w.eventually(ctx, "the scale", func(ctx context.Context) error {
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(4)}}}
		return w.client.SubResource("scale").Update(ctx, web.named(), client.WithSubResourceBody(scale), client.FieldOwner("scaler"))
	}); err != nil {
		return err
	}
	commit, err := w.pushAndTell(ctx, "another image", map[string]string{"scaled/web.yaml": strings.ReplaceAll(argoWeb, "web:v1", "web:v2")})
	if err != nil {
		return err
	}
	if err := w.synced(ctx, "scaled", value("status.sync.revision", commit)); err != nil {
		return err
	}
	return w.until(ctx, web, func(u *unstructured.Unstructured) error {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		if text := fmt.Sprint(containers); !strings.Contains(text, "web:v2") {
			return fmt.Errorf("its containers are %s", text)
		}
		return both(value("spec.replicas", 4), value("status.availableReplicas", 4))(u)
	})
}

// immutableReplaced has an object that cannot change be another one.
func immutableReplaced(ctx context.Context, w *world) error {
	if err := w.apply(ctx, "", argoApplicationOf("replaced", "syncPolicy: {", "syncPolicy: {retry: {limit: 0}, ")); err != nil {
		return err
	}
	if err := w.synced(ctx, "replaced"); err != nil {
		return err
	}
	settings := key{"v1", "ConfigMap", "team-replaced/settings"}
	before, err := w.get(ctx, settings)
	if err != nil {
		return err
	}
	changed := strings.ReplaceAll(argoFiles["replaced/settings.yaml"], "hello", "goodbye")
	if _, err := w.pushAndTell(ctx, "another word", map[string]string{"replaced/settings.yaml": changed}); err != nil {
		return err
	}
	if err := w.until(ctx, argoKey("replaced"), func(u *unstructured.Unstructured) error {
		if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, "field is immutable when `immutable` is set") {
			return fmt.Errorf("its status is %s", text)
		}
		return nil
	}); err != nil {
		return err
	}
	forced := strings.ReplaceAll(changed, "annotations: {", "annotations: {argocd.argoproj.io/sync-options: \"Force=true,Replace=true\", ")
	commit, err := w.pushAndTell(ctx, "by force", map[string]string{"replaced/settings.yaml": forced})
	if err != nil {
		return err
	}
	if err := w.synced(ctx, "replaced", value("status.sync.revision", commit)); err != nil {
		return err
	}
	return w.until(ctx, settings, func(u *unstructured.Unstructured) error {
		if u.GetUID() == before.GetUID() {
			return errors.New("it is the same object")
		}
		return value("data.word", "goodbye")(u)
	})
}
