// Package storagemigration is the API group storagemigration.k8s.io: requests to store the objects of a resource anew, in
// its storage version and with the current encryption key. A controller carries them out.
package storagemigration

import (
	migrationv1 "k8s.io/api/storagemigration/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

var (
	v1      = migrationv1.SchemeGroupVersion
	v1beta1 = migrationv1beta1.SchemeGroupVersion
)

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	if !d.Gates.Enabled(features.StorageVersionMigrator) {
		return nil
	}
	return engine.Kinds(storageVersionMigrations())
}

func storageVersionMigrations() *engine.Resource {
	return &engine.Resource{
		Plural: "storageversionmigrations", Kind: "StorageVersionMigration",
		// Upstream stores what 1.36 can read.
		Stored: &engine.Stored{GroupVersion: v1beta1},
		Versions: engine.Renamed(
			engine.VersionOf[migrationv1.StorageVersionMigration, migrationv1.StorageVersionMigrationList](v1, nil),
			engine.VersionOf[migrationv1beta1.StorageVersionMigration, migrationv1beta1.StorageVersionMigrationList](v1beta1, nil),
		),
		Rules: engine.Typed[*migrationv1.StorageVersionMigration]{
			StatusApart:          true,
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*migrationv1.StorageVersionMigration]{
			ValidateUpdate:       validateStatus,
			NeedsResourceVersion: true,
		})},
		Table: table(),
	}
}

func table() *engine.Table {
	return engine.TableOf(row,
		cells.String("Name", cells.Name().Description), // without the format of a name
		cells.String("Resource", "The resource whose objects are stored anew."),
		cells.String("Status", "How far the migration is: Running, Succeeded, Failed."),
	)
}

// row prints the last condition that holds.
func row(m *migrationv1.StorageVersionMigration) []any {
	status := "Unknown"
	for _, c := range m.Status.Conditions {
		switch migrationv1.MigrationConditionType(c.Type) {
		case migrationv1.MigrationRunning, migrationv1.MigrationSucceeded, migrationv1.MigrationFailed:
			if c.Status == metav1.ConditionTrue {
				status = c.Type
			}
		}
	}
	return []any{m.Name, m.Spec.Resource.String(), status}
}
