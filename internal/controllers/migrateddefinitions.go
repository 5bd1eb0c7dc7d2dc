package controllers

import (
	"context"
	"fmt"
	"slices"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// migratedDefinitions writes into the status of a CustomResourceDefinition that its objects are being migrated, and after
// that in which versions there still are stored ones.
type migratedDefinitions struct {
	endpoint *engine.Endpoint
	crds     *store.Index[*apiextensionsv1.CustomResourceDefinition]
	client   *inprocess.Client
	clock    clock.PassiveClock
}

type definitionCondition = apiextensionsv1.CustomResourceDefinitionCondition

// begin says that a migration runs.
func (d *migratedDefinitions) begin(ctx context.Context, m *migration) error {
	crd, ok, err := d.of(ctx, m)
	if !ok {
		return err
	}
	return d.write(ctx, crd, definitionCondition{Status: apiextensionsv1.ConditionTrue, Reason: migrationRunning,
		Message: fmt.Sprintf("Migration %s is running", m.Name)}, nil)
}

// end says how a migration has ended. If it has succeeded and the definition is the one with which it began, all objects
// are stored in the storage version.
func (d *migratedDefinitions) end(ctx context.Context, m *migration) error {
	crd, ok, err := d.of(ctx, m)
	if !ok {
		return err
	}
	i := slices.IndexFunc(crd.Status.Conditions, isMigrating)
	same := i >= 0 && crd.Status.Conditions[i].ObservedGeneration == crd.Generation
	c := definitionCondition{Status: apiextensionsv1.ConditionFalse, Reason: "MigrationSucceeded"}
	var stored []string
	switch {
	case !reached(m, migrationv1.MigrationSucceeded):
		c.Reason, c.Message = "MigrationFailed", "The migration has failed"
	case same:
		c.Message = "The migration has succeeded and the stored versions have been updated"
		stored = []string{storageVersion(crd)}
	default:
		c.Message = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
	}
	return d.write(ctx, crd, c, stored)
}

func isMigrating(c definitionCondition) bool { return c.Type == apiextensionsv1.StorageMigrating }

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return "" // validation has rejected that
}

// served says whether this server stores the objects of a definition, if there is one, in its storage version already: it takes up a change some
// milliseconds later, and what is written until then would be stored as before. A built-in resource of the definition's name is served instead of it.
func (d *migratedDefinitions) served(ctx context.Context, m *migration, now *catalog.Catalog) (bool, error) {
	crd, ok, err := d.of(ctx, m)
	if !ok {
		return err == nil, err
	}
	r := now.Resource(schema.GroupResource(m.Spec.Resource))
	return r == nil || !r.Custom || r.Storage == storageVersion(crd), nil
}

// of returns the definition of the resource that is migrated; ok is false if there is none.
func (d *migratedDefinitions) of(ctx context.Context, m *migration) (crd *apiextensionsv1.CustomResourceDefinition, ok bool, err error) {
	r := m.Spec.Resource
	return get(ctx, d.crds, r.Resource+"."+r.Group)
}

// write sets the condition, and the stored versions unless there are none to set, of a definition as it was seen.
func (d *migratedDefinitions) write(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, c definitionCondition, stored []string) error {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = apiextensionsv1.StorageMigrating, crd.Generation, metav1.NewTime(d.clock.Now())
	others := slices.DeleteFunc(slices.Clone(crd.Status.Conditions), isMigrating)
	status := map[string]any{"conditions": append(others, c)}
	if stored != nil {
		status["storedVersions"] = stored
	}
	return ignoreMissing(d.client.Merge(ctx, at(d.endpoint, "status"), request.Unchanged(crd), map[string]any{"status": status}))
}
