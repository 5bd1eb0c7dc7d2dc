package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// runMigrations carries out StorageVersionMigrations: it writes every object of a resource unchanged, so that it is stored
// in the storage version and with the current encryption key. Of one resource, one migration runs at a time.
//
// Each look takes one step, whose result is in the migration's status: it begins (condition Running), gets the revision up
// to which objects are migrated, migrates them (Succeeded or Failed), and ends (not Running).
func runMigrations(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(migrationv1.Resource("storageversionmigrations"))
	if ep == nil {
		return // not served: an older version is emulated
	}
	crds := c.endpoint(apiextensionsv1.Resource("customresourcedefinitions"))
	m := &migrator{Config: c, client: cl, objects: remotes.NewClient(cl.Transport()), endpoint: ep, migrations: engine.IndexOf[*migration](ep),
		definitions: &migratedDefinitions{crds, engine.IndexOf[*apiextensionsv1.CustomResourceDefinition](crds), cl.Managing("migration-runner-controller"), c.Clock}}
	c.work(ctx, "storage-version-migrator", m.look, m.follow)
}

type migration = migrationv1.StorageVersionMigration

type migrator struct {
	Config
	client      *inprocess.Client
	objects     *remotes.Client
	endpoint    *engine.Endpoint
	migrations  *store.Index[*migration]
	definitions *migratedDefinitions
}

// Reasons of conditions.
const (
	migrationRunning   = "MigrationRunning"
	migrationCompleted = "MigrationCompleted"
	migrationSucceeded = "StorageVersionMigrationSucceeded"
	migrationFailed    = "StorageVersionMigrationFailed"
)

const (
	// unknownFor is how long after its creation a migration waits for a resource that is not served.
	unknownFor = time.Minute
	// unknownPause is the pause between looks for such a resource.
	unknownPause = 5 * time.Second
	// definitionPause is that between looks for a definition that has just changed.
	definitionPause = 50 * time.Millisecond
)

// follow queues the resources whose migrations change.
func (m *migrator) follow(ctx context.Context, q *queue.Queue, begun, ended func()) {
	m.migrations.Join(ctx, ended, func(c store.Change[*migration]) {
		changed := c.Now
		if changed == nil {
			changed, _ = c.Was(ctx)
		}
		if changed != nil {
			q.Add(changed.Spec.Resource.String())
		}
	}, func(int64) { begun() })
}

// look takes the next step for the migrations of one resource.
func (m *migrator) look(ctx context.Context, resource string) (again time.Duration, err error) {
	if err := m.Store.Fresh(ctx); err != nil {
		return 0, err
	}
	all, err := m.migrations.Objects(ctx, "")
	if err != nil {
		return 0, err
	}
	var running, next *migration
	for _, o := range all {
		switch {
		case o.Spec.Resource.String() != resource:
		case reached(o, migrationv1.MigrationRunning):
			if isOver(o) {
				return 0, m.end(ctx, o)
			}
			running = o
		case !isOver(o) && (next == nil || older(o, next)):
			next = o
		}
	}
	switch {
	case running != nil:
		return m.advance(ctx, running)
	case next != nil:
		return 0, m.begin(ctx, next)
	}
	return 0, nil
}

func reached(m *migration, condition migrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

func isOver(m *migration) bool {
	return reached(m, migrationv1.MigrationSucceeded) || reached(m, migrationv1.MigrationFailed)
}

func older(a, b *migration) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

func (m *migrator) begin(ctx context.Context, o *migration) error {
	if err := m.definitions.begin(ctx, o); err != nil {
		return err
	}
	return m.report(ctx, o, condition(migrationv1.MigrationRunning, migrationRunning, progress(0, 0, nil)))
}

func (m *migrator) end(ctx context.Context, o *migration) error {
	if err := m.definitions.end(ctx, o); err != nil {
		return err
	}
	c := condition(migrationv1.MigrationRunning, migrationCompleted, "Migration completed")
	c.Status = metav1.ConditionFalse
	return m.report(ctx, o, c)
}

// advance takes a step of a running migration.
func (m *migrator) advance(ctx context.Context, o *migration) (again time.Duration, err error) {
	gr := schema.GroupResource(o.Spec.Resource)
	k := remotes.KindOf(m.Catalog.Now(), gr)
	needed := []string{"update", "patch", "list"}
	switch {
	case k == nil && m.Clock.Since(o.CreationTimestamp.Time) < unknownFor:
		return unknownPause, nil
	case k == nil:
		return 0, m.fail(ctx, o, "resource does not exist in discovery")
	case !k.Can(needed...):
		return 0, m.fail(ctx, o, fmt.Sprintf("resource %q does not support discovery operations: %v", k.GroupVersionResource.String(), needed))
	}
	if ok, err := m.definitions.served(ctx, o, m.Catalog.Now()); err != nil || !ok {
		return definitionPause, err
	}
	if o.Status.ResourceVersion == "" {
		return 0, m.setRevision(ctx, o, k)
	}
	return 0, m.migrate(ctx, o, k)
}

// setRevision notes which objects are migrated: those that have not changed since. What changes is stored anew by that.
func (m *migrator) setRevision(ctx context.Context, o *migration, k *remotes.Kind) error {
	revision, err := m.objects.Revision(ctx, k)
	if err != nil {
		return err
	}
	if _, err := resourceversion.CompareResourceVersion(revision, revision); err != nil {
		return m.fail(ctx, o, fmt.Sprintf("latest resourceVersion for %s is not valid: %v", k.GroupVersionResource.String(), err))
	}
	return m.edit(ctx, o, func(s *migrationv1.StorageVersionMigrationStatus) { s.ResourceVersion = revision })
}

// migrate writes the objects and reports how that went. After an error that may pass, it begins anew.
func (m *migrator) migrate(ctx context.Context, o *migration, k *remotes.Kind) error {
	all, _, err := m.objects.List(ctx, k)
	if err != nil {
		return err
	}
	total := len(all)
	left := slices.DeleteFunc(all, func(obj remotes.Object) bool {
		later, err := resourceversion.CompareResourceVersion(obj.ResourceVersion, o.Status.ResourceVersion)
		return err == nil && later > 0
	})
	for len(left) > 0 {
		switch err := m.objects.Rewrite(ctx, k, &left[0]); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err): // changed, and so stored anew, or gone
			left = left[1:]
		case passes(err):
			_ = m.report(ctx, o, condition(migrationv1.MigrationRunning, migrationRunning, progress(len(left), total, err)))
			return err
		default:
			return m.report(ctx, o, condition(migrationv1.MigrationRunning, migrationRunning, progress(len(left), total, nil)),
				condition(migrationv1.MigrationFailed, migrationFailed, fmt.Sprintf("%d/%d not yet migrated. %s", len(left), total, unhandled(err))))
		}
	}
	return m.report(ctx, o, condition(migrationv1.MigrationRunning, migrationRunning, progress(0, total, nil)),
		condition(migrationv1.MigrationSucceeded, migrationSucceeded, "Migration completed"))
}

// passes says that a write may succeed later: the server has not decided about it.
func passes(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

// progress says how many of all objects are left, and which error was the last.
func progress(left, all int, err error) string {
	out := "The migration is running"
	switch {
	case left > 0:
		out += fmt.Sprintf(", %d/%d objects not yet migrated", left, all)
	case all > 0:
		out += fmt.Sprintf(", %d objects verified migrated", all)
	}
	if err != nil {
		out += "; transient error: " + err.Error()
	}
	return out
}

func unhandled(err error) string { return "migration encountered unhandled error: " + err.Error() }

func condition(t migrationv1.MigrationConditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: string(t), Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func (m *migrator) fail(ctx context.Context, o *migration, message string) error {
	return m.report(ctx, o, condition(migrationv1.MigrationFailed, migrationFailed, message))
}

// report writes conditions into the status of a migration.
func (m *migrator) report(ctx context.Context, o *migration, conditions ...metav1.Condition) error {
	return m.edit(ctx, o, func(s *migrationv1.StorageVersionMigrationStatus) {
		for _, c := range conditions {
			c.LastTransitionTime = metav1.NewTime(m.Clock.Now())
			meta.SetStatusCondition(&s.Conditions, c)
		}
	})
}

func (m *migrator) edit(ctx context.Context, o *migration, change func(s *migrationv1.StorageVersionMigrationStatus)) error {
	_, err := inprocess.Edit(ctx, m.client, at(m.endpoint, "status"), request.Unchanged(o), func(o *migration) error {
		change(&o.Status)
		return nil
	})
	return ignoreMissing(err)
}
