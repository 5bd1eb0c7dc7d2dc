package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/resourcequota"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Marks are set before usage is counted, so that writes that are charged but
// not stored by then are charged again.
type Marks interface {
	// Mark sets a mark and returns its revision.
	Mark(ctx context.Context, name string) (int64, error)
	// Unmark removes a mark, if it exists.
	Unmark(ctx context.Context, name string) error
}

const (
	// leakAfter is how long after a charge a namespace is counted, in case the
	// charged write has failed.
	leakAfter = 5 * time.Second
	// recountAfter is the longest time between counts of a namespace with
	// quotas.
	recountAfter = 5 * time.Minute
	// countShare is the pause before the next count, as a multiple of the time
	// of the last one: counting a large namespace takes at most a tenth of a
	// processor.
	countShare = 10
	// countWorkers is how many namespaces are counted in parallel.
	countWorkers = 3
)

// runResourceQuotas writes the usage into the status of each ResourceQuota.
// Admission only adds usage; this controller finds reduced usage by counting
// anew. Package resourcequota explains how the two work together.
func runResourceQuotas(ctx context.Context, c Config, cl *inprocess.Client) {
	k := &quotaKeeper{
		Config: c, client: cl, quotas: c.endpoint(corev1.Resource("resourcequotas")),
		counter: resourcequota.NewCounter(c.Objects, c.Clock),
		queue:   queue.New("resourcequota", c.Clock, c.Guard, c.Queues, c.Log),
		took:    map[string]time.Duration{},
	}
	var running sync.WaitGroup
	running.Go(func() { k.follow(ctx) })
	k.queue.Run(ctx, countWorkers, k.look)
	running.Wait()
}

type quotaKeeper struct {
	Config
	client  *inprocess.Client
	quotas  *engine.Endpoint
	counter *resourcequota.Counter
	queue   *queue.Queue // of namespaces
	remote  remoteUsage

	mu   sync.Mutex
	took map[string]time.Duration // the last count of each namespace
}

// soon queues a namespace to be counted.
func (k *quotaKeeper) soon(namespace string) {
	k.mu.Lock()
	pause := k.took[namespace] * countShare
	k.mu.Unlock()
	k.queue.AddAfter(namespace, pause)
}

// errCharged says that admission has charged a quota during its count.
var errCharged = errors.New("quotas were charged while usage was counted")

// look brings the quotas of a namespace up to date.
func (k *quotaKeeper) look(ctx context.Context, namespace string) error {
	began := k.Clock.Now()
	quotas, err := k.namespaceQuotas(ctx, namespace)
	if err != nil {
		return err
	}
	if len(quotas) == 0 {
		k.mu.Lock()
		delete(k.took, namespace)
		k.mu.Unlock()
		return k.Marks.Unmark(ctx, resourcequota.Mark(namespace))
	}
	wrong, err := k.wrong(ctx, namespace, quotas)
	k.mu.Lock()
	k.took[namespace] = k.Clock.Since(began)
	k.mu.Unlock()
	if len(wrong) > 0 {
		err = errors.Join(err, k.recount(ctx, namespace))
	}
	if err == nil {
		k.queue.AddAfter(namespace, recountAfter)
	}
	return err
}

// recount counts the usage of a namespace and stores it.
func (k *quotaKeeper) recount(ctx context.Context, namespace string) error {
	mark, err := k.Marks.Mark(ctx, resourcequota.Mark(namespace))
	if err != nil {
		return err
	}
	quotas, err := k.namespaceQuotas(ctx, namespace)
	if err != nil {
		return err
	}
	wrong, err := k.wrong(ctx, namespace, quotas)
	errs := []error{err}
	for _, q := range wrong {
		rev, err := strconv.ParseInt(q.ResourceVersion, 10, 64)
		if err == nil && rev > mark {
			err = errCharged
		}
		if err == nil {
			_, err = k.client.Update(ctx, at(k.quotas, "status"), request.Unchanged(q), q)
		}
		if apierrors.IsConflict(err) {
			err = errCharged
		}
		errs = append(errs, ignoreMissing(err))
	}
	return errors.Join(errs...)
}

// namespaceQuotas returns the newest quotas of a namespace.
func (k *quotaKeeper) namespaceQuotas(ctx context.Context, namespace string) (out []*corev1.ResourceQuota, err error) {
	objs, err := k.quotas.ListObjects(ctx, namespace)
	for _, obj := range objs {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			return nil, fmt.Errorf("%s is a %T", obj.GetName(), obj)
		}
		out = append(out, q)
	}
	return out, err
}

// wrong returns the quotas whose status is wrong, with a correct one. It counts
// objects at some revision after the call.
func (k *quotaKeeper) wrong(ctx context.Context, namespace string, quotas []*corev1.ResourceQuota) (wrong []*corev1.ResourceQuota, err error) {
	stored, err := k.stored(ctx, namespace, quotas)
	errs := []error{err}
	for _, q := range quotas {
		status, err := k.counter.Status(ctx, q, stored)
		errs = append(errs, err)
		if !resourcequota.UpToDate(q, status) {
			q = q.DeepCopy()
			q.Status = status
			wrong = append(wrong, q)
		}
	}
	return wrong, errors.Join(errs...)
}

// stored returns the objects of a namespace of the resources that quotas limit.
// A resource that cannot be read is left out: its usage stays as it was.
func (k *quotaKeeper) stored(ctx context.Context, namespace string, quotas []*corev1.ResourceQuota) (out []resourcequota.Stored, err error) {
	var errs []error
	for _, ep := range k.metered() {
		limited := false
		for _, q := range quotas {
			limited = limited || k.counter.Measures(ep.GVR.GroupResource(), q.Spec.Hard)
		}
		if !limited {
			continue
		}
		snap, err := ep.Fresh(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, storedIn(ctx, snap, ep, namespace))
	}
	out = append(out, k.remote.stored(namespace, func(gr schema.GroupResource) bool {
		return slices.ContainsFunc(quotas, func(q *corev1.ResourceQuota) bool { return k.counter.Measures(gr, q.Spec.Hard) })
	})...)
	return out, errors.Join(errs...)
}

func storedIn(ctx context.Context, snap *store.Snapshot, ep *engine.Endpoint, namespace string) resourcequota.Stored {
	in := store.Range{Prefix: namespace + "/"}
	return resourcequota.Stored{
		Resource: ep.GVR.GroupResource(),
		Len:      func() (int64, error) { return snap.Count(ctx, in) },
		Each: func(f func(obj runtime.Object) error) error {
			var failed error
			err := snap.Ascend(ctx, in, func(i *store.Item) bool {
				obj, err := ep.Decode(ctx, i)
				if err == nil {
					err = f(obj)
				}
				failed = err
				return err == nil
			})
			return cmp.Or(failed, err)
		},
	}
}

// metered returns the resources that quotas can limit, in one version each.
func (k *quotaKeeper) metered() (out []*engine.Endpoint) {
	seen := map[*engine.Resource]bool{}
	for _, ep := range k.Endpoints() {
		if !ep.R.Namespaced || ep.View() == nil || seen[ep.R] || !resourcequota.Metered(ep.GVR.GroupResource()) {
			continue
		}
		seen[ep.R] = true
		out = append(out, ep)
	}
	return out
}
