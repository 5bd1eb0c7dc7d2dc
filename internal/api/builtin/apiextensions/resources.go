// Package apiextensions is the API group apiextensions.k8s.io/v1: CustomResourceDefinitions as objects. The package crd
// serves the resources that they define.
package apiextensions

import (
	"context"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = apiextensionsv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return engine.Kinds(customResourceDefinitions())
}

func customResourceDefinitions() *engine.Resource {
	return &engine.Resource{
		Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition",
		ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"},
		Prefix:     "apiextensions.k8s.io/customresourcedefinitions",
		Stored:     stored(),
		Versions: []*engine.Version{engine.VersionOf[apiextensionsv1.CustomResourceDefinition, apiextensionsv1.CustomResourceDefinitionList](
			v1, setDefaults)},
		Rules: engine.Typed[*apiextensionsv1.CustomResourceDefinition]{
			StatusApart:   true,
			CountsSpec:    true,
			PrepareCreate: func(_ context.Context, d *apiextensionsv1.CustomResourceDefinition) { addStoredVersion(d) },
			PrepareUpdate: func(_ context.Context, d, old *apiextensionsv1.CustomResourceDefinition) {
				d.Status = *old.Status.DeepCopy()
				addStoredVersion(d)
			},
			// A definition stays until its custom resources are deleted.
			Held:                 func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.DeletionTimestamp == nil },
			Terminating:          beginDeletion,
			HeldAlone:            true,
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			Warn:                 warn,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.WithoutTable(engine.Status(engine.Typed[*apiextensionsv1.CustomResourceDefinition]{
			PrepareUpdate: func(_ context.Context, d, old *apiextensionsv1.CustomResourceDefinition) {
				// Compared with itself: upstream's status update also changes metadata, except for what is reset here.
				metav1.ResetObjectMetaForStatus(&d.ObjectMeta, &d.ObjectMeta)
			},
			ValidateUpdate:       validateStatus,
			NeedsResourceVersion: true,
		}))},
		Table: customResourceDefinitionTable(),
	}
}

func setDefaults(d *apiextensionsv1.CustomResourceDefinition) {
	s := &d.Spec
	rules.Default(&s.Names.Singular, strings.ToLower(s.Names.Kind))
	if s.Names.Kind != "" {
		rules.Default(&s.Names.ListKind, s.Names.Kind+"List")
	}
	rules.DefaultPtr(&s.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	if w := s.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil {
		rules.DefaultPtr(&w.ClientConfig.Service.Port, 443)
	}
	if len(d.Status.StoredVersions) == 0 {
		addStoredVersion(d)
	}
}

// beginDeletion sets the Terminating condition, at which the controller deletes the custom resources.
func beginDeletion(d *apiextensionsv1.CustomResourceDefinition) {
	if !slices.Contains(d.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		d.Finalizers = append(d.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
		Reason:             "InstanceDeletionPending",
		Message:            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
		LastTransitionTime: *d.DeletionTimestamp,
	}
	d.Status.Conditions = append(slices.DeleteFunc(d.Status.Conditions, func(have apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return have.Type == c.Type
	}), c)
}

// addStoredVersion records in the status that objects may now be stored in the storage version.
func addStoredVersion(d *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			continue
		}
		if !slices.Contains(d.Status.StoredVersions, v.Name) {
			d.Status.StoredVersions = append(d.Status.StoredVersions, v.Name)
		}
		return
	}
}
