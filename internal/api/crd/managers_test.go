package crd_test

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Fields that were managed in a version that has left the definition stay managed by whom they were through updates, and
// nothing can be applied until somebody has removed their managers.
func TestManagersOfRemovedVersions(t *testing.T) {
	c := start(t)
	c.define(definition("things", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = append(d.Spec.Versions, version("v0", "size"))
	}))
	old := metav1.ApplyOptions{FieldManager: "old"}
	if _, err := c.client.Resource(things("v0", "things")).Apply(t.Context(), "a", thing("v0", "a", map[string]any{"size": int64(1)}), old); err != nil {
		t.Fatal(err)
	}
	v1 := c.client.Resource(things("v1", "things"))
	w, err := v1.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	remove := func() error {
		d, err := c.client.Resource(definitions).Get(t.Context(), "things.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Object["spec"].(map[string]any)["versions"] = definition("things", nil).Object["spec"].(map[string]any)["versions"]
		_, err = c.client.Resource(definitions).Update(t.Context(), d, metav1.UpdateOptions{})
		return err
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, remove); err != nil {
		t.Fatal(err)
	}
	for range w.ResultChan() { // until the change has reached the things
	}

	patch := func(patch string) []metav1.ManagedFieldsEntry {
		t.Helper()
		got, err := v1.Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "new"})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetManagedFields()
	}
	if got := patch(`{"spec":{"size":2}}`); len(got) != 1 || got[0].Manager != "old" || got[0].APIVersion != "example.com/v0" || got[0].FieldsV1.GetRawString() != `{"f:spec":{"f:size":{}}}` {
		t.Errorf("after an update the managers are %v", got)
	}
	three := thing("v1", "a", map[string]any{"size": int64(3)})
	_, err = v1.Apply(t.Context(), "a", three, metav1.ApplyOptions{FieldManager: "old", Force: true})
	if s := apierrors.APIStatus(nil); !errors.As(err, &s) || s.Status().Code != 500 || s.Status().Message != "request to convert CR to an invalid group/version: example.com/v0" {
		t.Errorf("an apply: %v", err)
	}
	if got := patch(`{"metadata":{"managedFields":[{}]}}`); len(got) != 0 {
		t.Errorf("managers that were removed: %v", got)
	}
	if _, err := v1.Apply(t.Context(), "a", three, metav1.ApplyOptions{FieldManager: "new", Force: true}); err != nil {
		t.Errorf("an apply without managers: %v", err)
	}
}
