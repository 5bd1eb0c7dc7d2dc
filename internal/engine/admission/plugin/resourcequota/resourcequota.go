// Package resourcequota keeps the usage of a namespace within its quotas.
//
// A write that uses more than before is charged to its quotas, by compare and
// swap on their status.used, before it is stored. So the sum never exceeds
// status.hard, however many writers and servers there are. Charges for writes
// that fail afterwards, and the usage of deleted objects, are released by the
// quota controller when it counts again (Counter). Releasing them here could
// undo a count made in between, and let usage exceed the limit.
//
// Until it is stored, a charged write cannot be counted. So the controller
// first sets the namespace's mark, at a revision m; then it counts the objects
// at some revision from m on; then it stores the usage, if the quota has not
// changed since m. A write is stored on condition that the mark was not set
// since its charge. There are three cases. A write stored before m is counted.
// A write charged before m and not stored yet fails on its condition and is
// charged again, on top of the new count. A charge after m changes the quota,
// so the count is discarded and made again. So no stored usage ever lacks an
// object that exists or will exist.
package resourcequota

import (
	"context"
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "ResourceQuota"

// unmetered resources are never limited by quotas: they are not stored, or
// kube-apiserver exempts them.
var unmetered = sets.New(
	schema.GroupResource{Resource: "bindings"},
	schema.GroupResource{Resource: "componentstatuses"},
	schema.GroupResource{Resource: "events"},
	schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
	schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
)

type plugin struct {
	objects admission.Objects
	clock   clock.PassiveClock
	limited []limitedResource
	queue   *queue
}

// New makes the plugin. configuration is a ResourceQuotaConfiguration in YAML
// or JSON, or empty.
func New(objects admission.Objects, clock clock.PassiveClock, configuration []byte) (admission.Plugin, error) {
	limited, err := parse(configuration)
	if err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p := &plugin{objects: objects, clock: clock, limited: limited}
	p.queue = newQueue(p.makeCharges)
	return admission.Plugin{Name: Name, Validator: p, On: []admission.Operation{admission.Create, admission.Update}}, nil
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	gr := a.Resource.GroupResource()
	if a.Namespace == "" || gr == admission.Namespaces && a.Operation == admission.Create || unmetered.Has(gr) {
		return nil
	}
	m := p.meter(gr)
	if !m.handles(a) {
		return nil
	}
	quotas, err := admission.SeenList[*corev1.ResourceQuota](ctx, p.objects, admission.ResourceQuotas, a.Namespace)
	if err != nil {
		return fmt.Errorf("read quotas: %w", err)
	}
	if len(quotas) == 0 && len(p.limited) == 0 {
		return nil
	}
	c := &charge{meter: m, a: a, limited: p.limited}
	deltas, err := c.to(ctx, quotas)
	if err == nil && (len(deltas) == 0 || a.DryRun) {
		return nil
	}
	if !a.DryRun {
		return p.reserve(ctx, c)
	}
	// The view may be behind, so a refusal is decided again on the newest
	// quotas.
	if quotas, err = p.newest(ctx, a.Namespace); err == nil {
		_, err = c.to(ctx, quotas)
	}
	return err
}

// reserve makes a charge. The write may be stored as long as usage was not
// counted since.
func (p *plugin) reserve(ctx context.Context, c *charge) error {
	if err := p.queue.do(ctx, c.a.Namespace, c); err != nil {
		return err
	}
	if c.since == 0 {
		return nil // no quota was charged
	}
	r := &admission.Reservation{Mark: Mark(c.a.Namespace), Rev: c.since}
	r.Renew = func(ctx context.Context) error {
		again := &charge{meter: c.meter, a: c.a, limited: c.limited}
		if err := p.queue.do(ctx, c.a.Namespace, again); err != nil {
			return err
		}
		if r.Rev = again.since; r.Rev == 0 {
			r.Rev = math.MaxInt64 - 1 // without quotas no count can make the reservation void
		}
		return nil
	}
	c.a.Reserved = r
	return nil
}

// Mark returns the name of the mark that is set in the store before the usage
// of a namespace is counted.
func Mark(namespace string) string { return "resourcequotas/" + namespace }

func (p *plugin) newest(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
	return admission.List[*corev1.ResourceQuota](ctx, p.objects, admission.ResourceQuotas, namespace)
}

// makeCharges decides on charges of a namespace and makes those that fit, all in one update of each quota.
func (p *plugin) makeCharges(ctx context.Context, namespace string, charges []*charge) {
	fail := func(err error) {
		for _, c := range charges {
			if c.err == nil {
				c.err = err
			}
		}
	}
	quotas, err := p.newest(ctx, namespace)
	if err != nil {
		fail(err)
		return
	}
	// Charges are first decided in memory, one after the other, so that a
	// charge that exceeds one quota is not made to another.
	running := make([]*corev1.ResourceQuota, len(quotas))
	for i := range quotas {
		running[i] = quotas[i].DeepCopy()
	}
	touched := make([]bool, len(quotas))
	for _, c := range charges {
		var deltas map[int]corev1.ResourceList
		if deltas, c.err = c.to(ctx, running); c.err != nil {
			continue
		}
		for i, delta := range deltas {
			running[i].Status.Used = sum(running[i].Status.Used, delta)
			touched[i] = true
		}
	}
	for i, q := range quotas {
		if !touched[i] {
			continue
		}
		if err := p.update(ctx, q, charges); err != nil {
			fail(err)
			return
		}
	}
}

// update makes the charges to one quota. The quota may have changed since they
// were decided, or be another one, so they are decided again.
func (p *plugin) update(ctx context.Context, q *corev1.ResourceQuota, charges []*charge) error {
	var refused map[*charge]error
	var charged []*charge
	updated, err := p.objects.Update(ctx, admission.ResourceQuotas, request.Named(q.Namespace, q.Name), false, func(obj admission.Object) error {
		now, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			return fmt.Errorf("quota %s is a %T", q.Name, obj)
		}
		refused, charged = map[*charge]error{}, nil
		for _, c := range charges {
			if c.err != nil {
				continue
			}
			delta, err := c.toOne(ctx, now)
			delta = mask(delta, now.Status.Hard)
			if err == nil {
				err = c.fits(now, delta)
			}
			if err != nil {
				refused[c] = err
				continue
			}
			if len(delta) > 0 {
				now.Status.Used = sum(now.Status.Used, delta)
				charged = append(charged, c)
			}
		}
		return nil
	})
	if err != nil {
		return ignoreGone(err)
	}
	rev, err := strconv.ParseInt(updated.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("revision of quota %s: %w", q.Name, err)
	}
	for _, c := range charged {
		if c.since == 0 || rev < c.since {
			c.since = rev
		}
	}
	for c, err := range refused {
		c.err = err
	}
	return nil
}
