package storagemigration

import (
	"context"
	"strings"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validate(_ context.Context, m *migrationv1.StorageVersionMigration) field.ErrorList {
	e := rules.At(field.NewPath("spec", "resource"))
	e.Add(rules.ObjectMeta(&m.ObjectMeta, false, rules.Subdomain))
	r := m.Spec.Resource
	if r.Resource == "" {
		e.Field("resource").Required("resource is required to be set")
	} else {
		joined(r.Resource, validation.IsDNS1035Label(r.Resource), e.Field("resource"))
	}
	if r.Group != "" {
		joined(r.Group, validation.IsDNS1123Subdomain(r.Group), e.Field("group"))
	}
	return e.List()
}

// joined reports all that is wrong with a value in one error.
func joined(value string, messages []string, e rules.Errors) {
	if len(messages) > 0 {
		e.Invalid(value, strings.Join(messages, ","))
	}
}

func validateUpdate(ctx context.Context, m, old *migrationv1.StorageVersionMigration) field.ErrorList {
	e := rules.At(nil)
	e.Add(validate(ctx, m))
	e.Add(rules.ObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta))
	e.Unchanged("spec", m.Spec, old.Spec)
	return e.List()
}

func validateStatus(_ context.Context, m, old *migrationv1.StorageVersionMigration) field.ErrorList {
	e := rules.At(field.NewPath("status"))
	e.Add(rules.ObjectMetaUpdate(&m.ObjectMeta, &old.ObjectMeta))
	revision(m.Status.ResourceVersion, old.Status.ResourceVersion, e.Field("resourceVersion"))
	conditions := e.Field("conditions")
	e.Add(metavalidation.ValidateConditions(m.Status.Conditions, conditions.Path()))
	succeeded, failed := is(m, migrationv1.MigrationSucceeded), is(m, migrationv1.MigrationFailed)
	if succeeded && failed {
		conditions.Invalid(m.Status.Conditions, "a migration that has succeeded cannot have failed")
	}
	if is(old, migrationv1.MigrationSucceeded) && !succeeded {
		conditions.Invalid(m.Status.Conditions, "success is final")
	}
	if is(old, migrationv1.MigrationFailed) && !failed {
		conditions.Invalid(m.Status.Conditions, "failure is final")
	}
	return e.List()
}

// revision validates the resourceVersion up to which objects are stored anew; it is set once.
func revision(rv, old string, e rules.Errors) {
	if rv != "" {
		if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
			e.Invalid(rv, err.Error())
		}
	}
	if old != "" && rv != old {
		e.Invalid(rv, "cannot be changed")
	}
}

func is(m *migrationv1.StorageVersionMigration, condition migrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}
