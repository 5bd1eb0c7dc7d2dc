package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// producer is the field manager that writes the objects, under kube-apiserver's name.
const producer = "api-priority-and-fairness-config-producer-v1"

const (
	// upkeepEvery is the period of checks without changes.
	upkeepEvery = time.Minute
	// upkeepPause is the pause between checks, so that two servers with different wanted objects do not keep each other
	// busy.
	upkeepPause = time.Second
)

// Upkeep maintains the objects that a cluster starts with: the mandatory objects always, the suggested objects unless
// an administrator has changed them. An annotation of each object says whether it is maintained.
type Upkeep struct {
	Levels, Schemas *engine.Endpoint
	// Client makes the writes, as the server itself.
	Client *inprocess.Client
	// Wanted are the objects that a cluster starts with.
	WantedLevels  []*flowcontrolv1.PriorityLevelConfiguration
	WantedSchemas []*flowcontrolv1.FlowSchema
	Clock         clock.Clock
	Log           *slog.Logger
}

// Run checks the objects on each change and periodically, until ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx) // so that a panic below does not block on the other goroutines
	defer stop()
	changed := make(chan struct{}, 1)
	tell := func(store.Change[engine.Object]) {
		select {
		case changed <- struct{}{}:
		default: // a signal is already pending
		}
	}
	for _, ep := range []*engine.Endpoint{u.Levels, u.Schemas} {
		wg.Add(1)
		engine.IndexOf[engine.Object](ep).Join(ctx, wg.Done, tell, nil)
	}
	for {
		if err := u.Once(ctx); err != nil && ctx.Err() == nil {
			u.Log.Warn("could not keep the objects of flow control", "error", err)
		}
		select {
		case <-u.Clock.After(upkeepPause):
		case <-ctx.Done():
			return
		}
		select {
		case <-changed:
		case <-u.Clock.After(upkeepEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Once creates missing objects, corrects maintained objects that differ, and deletes maintained objects that are no
// longer wanted.
func (u *Upkeep) Once(ctx context.Context) error {
	var levels, schemas []wanted
	for _, pl := range u.WantedLevels {
		levels = append(levels, wanted{
			Object:    pl,
			mandatory: pl.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt || pl.Name == flowcontrolv1.PriorityLevelConfigurationNameCatchAll,
			same: func(have engine.Object) bool {
				return apiequality.Semantic.DeepEqual(limitOf(have.(*flowcontrolv1.PriorityLevelConfiguration), pl), pl.Spec)
			},
			mend: func(have engine.Object) { have.(*flowcontrolv1.PriorityLevelConfiguration).Spec = *pl.Spec.DeepCopy() },
		})
	}
	for _, fs := range u.WantedSchemas {
		schemas = append(schemas, wanted{
			Object:    fs,
			mandatory: fs.Name == flowcontrolv1.FlowSchemaNameExempt || fs.Name == flowcontrolv1.FlowSchemaNameCatchAll,
			same: func(have engine.Object) bool {
				return apiequality.Semantic.DeepEqual(have.(*flowcontrolv1.FlowSchema).Spec, fs.Spec)
			},
			mend: func(have engine.Object) { have.(*flowcontrolv1.FlowSchema).Spec = *fs.Spec.DeepCopy() },
		})
	}
	return errors.Join(u.keep(ctx, u.Levels, levels), u.keep(ctx, u.Schemas, schemas))
}

// wanted is an object that a cluster starts with. Its maintainer always maintains a mandatory one.
type wanted struct {
	engine.Object
	mandatory bool
	same      func(have engine.Object) bool
	mend      func(have engine.Object)
}

// keep looks at all objects of a kind, as this server has seen them: what it does about them is refused if they have changed. To ask etcd for the newest
// of each would be most of what etcd does for a control plane that nobody uses.
func (u *Upkeep) keep(ctx context.Context, ep *engine.Endpoint, all []wanted) error {
	objs, err := ep.SeenObjects(ctx, "")
	if err != nil {
		return err
	}
	others := make(map[string]engine.Object, len(objs))
	for _, o := range objs {
		others[o.GetName()] = o
	}
	var errs []error
	for n := range all {
		w := &all[n]
		errs = append(errs, u.ensure(ctx, ep, w, others[w.GetName()]))
		delete(others, w.GetName())
	}
	for _, o := range others {
		errs = append(errs, u.remove(ctx, ep, o))
	}
	return errors.Join(errs...)
}

// limitOf returns the part of a level's spec that is compared with the wanted one. The nominal shares and lendable
// percentage of an exempt level belong to the administrator.
func limitOf(have, wanted *flowcontrolv1.PriorityLevelConfiguration) flowcontrolv1.PriorityLevelConfigurationSpec {
	spec := *have.Spec.DeepCopy()
	if spec.Exempt != nil && wanted.Spec.Exempt != nil {
		spec.Exempt = wanted.Spec.Exempt
	}
	return spec
}

// ensure creates or corrects a wanted object; have nil: there is none.
func (u *Upkeep) ensure(ctx context.Context, ep *engine.Endpoint, w *wanted, have engine.Object) error {
	if have == nil {
		_, err := u.Client.Managing(producer).Create(ctx, inprocess.Target{Resource: ep.GVR}, w.DeepCopyObject().(engine.Object))
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	keep, annotated := kept(have)
	if w.mandatory {
		annotated = annotated && keep
		keep = true
	}
	if annotated && (!keep || w.same(have)) {
		return nil
	}
	_, err := inprocess.Edit(ctx, u.Client.Managing(producer), inprocess.Target{Resource: ep.GVR}, request.Unchanged(have), func(o engine.Object) error {
		if keep && !w.same(o) {
			w.mend(o)
		}
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(keep)
		o.SetAnnotations(annotations)
		return nil
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next check looks at it again
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", w.GetName(), err)
	}
	return nil
}

// kept reports whether an object is maintained. An object without the annotation is, until someone changes it.
func kept(o engine.Object) (keep, annotated bool) {
	if keep, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil {
		return keep, true
	}
	return o.GetGeneration() == 1, false
}

// remove deletes an object that is not wanted, if its annotation says that it is maintained.
func (u *Upkeep) remove(ctx context.Context, ep *engine.Endpoint, o engine.Object) error {
	if keep, annotated := kept(o); !annotated || !keep {
		return nil
	}
	err := u.Client.Delete(ctx, inprocess.Target{Resource: ep.GVR}, request.Unchanged(o), nil)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
