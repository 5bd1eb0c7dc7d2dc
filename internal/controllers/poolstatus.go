package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// How long requests for the status of pools stay, answered and not.
const answeredRequestLasts, pendingRequestLasts = time.Hour, 24 * time.Hour

// poolStatus answers ResourcePoolStatusRequests: how many devices of a driver's pools are free.
type poolStatus struct {
	endpoint *engine.Endpoint
	requests *store.Index[*resourcev1alpha3.ResourcePoolStatusRequest]
	slices   *store.Index[*resourcev1.ResourceSlice]
	claims   *store.Index[*resourcev1.ResourceClaim]
	taints   *store.Index[*resourcev1.DeviceTaintRule] // nil: there are none
	config   Config
	client   *inprocess.Client
}

// runPoolStatusRequests answers requests for the status of pools, and deletes them in time.
func runPoolStatusRequests(ctx context.Context, c Config, cl *inprocess.Client) {
	ep, sliceEP, claimEP := c.endpoint(resourcev1alpha3.Resource("resourcepoolstatusrequests")), c.endpoint(resourcev1.Resource("resourceslices")), c.endpoint(resourcev1.Resource("resourceclaims"))
	if ep == nil || sliceEP == nil || claimEP == nil || !c.Gates.Enabled(features.DRAResourcePoolStatus) {
		return
	}
	p := &poolStatus{
		endpoint: ep, requests: engine.IndexOf[*resourcev1alpha3.ResourcePoolStatusRequest](ep), slices: engine.IndexOf[*resourcev1.ResourceSlice](sliceEP),
		claims: engine.IndexOf[*resourcev1.ResourceClaim](claimEP), config: c, client: cl,
	}
	if rules := c.endpoint(resourcev1.Resource("devicetaintrules")); rules != nil && c.Gates.Enabled(features.DRADeviceTaintRules) {
		p.taints = engine.IndexOf[*resourcev1.DeviceTaintRule](rules)
	}
	c.work(ctx, "resourcepoolstatusrequest", p.look, follow(p.requests, func(c store.Change[*resourcev1alpha3.ResourcePoolStatusRequest]) (string, bool) {
		return c.Key, !c.Gone
	}))
}

func (p *poolStatus) look(ctx context.Context, name string) (time.Duration, error) {
	r, ok, err := get(ctx, p.requests, name)
	if !ok {
		return 0, err
	}
	if left := expiry(r).Sub(p.config.Clock.Now()); left <= 0 {
		return 0, ignoreMissing(p.client.Delete(ctx, at(p.endpoint, ""), request.Same(r), nil))
	} else if r.Status != nil {
		return left, nil
	}
	status, err := p.status(ctx, r)
	if err != nil {
		return 0, err
	}
	_, err = inprocess.Edit(ctx, p.client, at(p.endpoint, "status"), request.Unchanged(r), func(r *resourcev1alpha3.ResourcePoolStatusRequest) error {
		r.Status = status
		return nil
	})
	return 0, ignoreMissing(err)
}

// expiry returns when a request is deleted.
func expiry(r *resourcev1alpha3.ResourcePoolStatusRequest) time.Time {
	if r.Status == nil {
		return r.CreationTimestamp.Add(pendingRequestLasts)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == resourcev1alpha3.ResourcePoolStatusRequestConditionComplete || c.Type == resourcev1alpha3.ResourcePoolStatusRequestConditionFailed {
			return c.LastTransitionTime.Add(answeredRequestLasts)
		}
	}
	return r.CreationTimestamp.Add(answeredRequestLasts)
}

// errIncomplete is why a request is not answered yet: a driver is still publishing the slices of a pool.
var errIncomplete = errors.New("a pool is not complete")

// status answers a request.
func (p *poolStatus) status(ctx context.Context, r *resourcev1alpha3.ResourcePoolStatusRequest) (*resourcev1alpha3.ResourcePoolStatusRequestStatus, error) {
	if err := p.config.Store.Fresh(ctx); err != nil {
		return nil, err
	}
	pools, err := p.pools(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &resourcev1alpha3.ResourcePoolStatusRequestStatus{PoolCount: new(int32(len(pools)))}
	limit := resourcev1alpha3.ResourcePoolStatusRequestLimitDefault
	if r.Spec.Limit != nil {
		limit = *r.Spec.Limit
	}
	wrong := 0
	for _, name := range slices.Sorted(maps.Keys(pools))[:min(len(pools), int(limit))] {
		if pools[name].incomplete() {
			return nil, errIncomplete
		}
		told := pools[name].status(r.Spec.DefaultPartitionTypeAttribute)
		if told.ValidationError != nil {
			wrong++
		}
		out.Pools = append(out.Pools, told)
	}
	message := fmt.Sprintf("Calculated status for %d pools", len(out.Pools))
	if wrong > 0 {
		message += fmt.Sprintf(" (%d incomplete)", wrong)
	}
	out.Conditions = []metav1.Condition{{
		Type: resourcev1alpha3.ResourcePoolStatusRequestConditionComplete, Status: metav1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(p.config.Clock.Now()), Reason: "CalculationComplete", Message: message,
	}}
	return out, nil
}

// pools returns the pools of a request by name, with what claims use of them.
func (p *poolStatus) pools(ctx context.Context, r *resourcev1alpha3.ResourcePoolStatusRequest) (map[string]*devicePool, error) {
	published, err := p.slices.Objects(ctx, "")
	if err != nil {
		return nil, err
	}
	var rules []*resourcev1.DeviceTaintRule
	if p.taints != nil {
		if rules, err = p.taints.Objects(ctx, ""); err != nil {
			return nil, err
		}
	}
	claims, err := p.claims.Objects(ctx, "")
	if err != nil {
		return nil, err
	}
	pools := map[string]*devicePool{}
	for _, s := range published {
		name := s.Spec.Pool.Name
		if s.Spec.Driver != r.Spec.Driver || r.Spec.PoolName != nil && *r.Spec.PoolName != "" && name != *r.Spec.PoolName {
			continue
		}
		if known := pools[name]; known == nil || known.generation < s.Spec.Pool.Generation {
			pools[name] = newDevicePool(s) // older slices no longer count
		}
		if pools[name].generation == s.Spec.Pool.Generation {
			pools[name].add(s, rules)
		}
	}
	for _, c := range claims {
		if c.Status.Allocation == nil {
			continue
		}
		for i := range c.Status.Allocation.Devices.Results {
			result := &c.Status.Allocation.Devices.Results[i]
			if pool := pools[result.Pool]; pool != nil && result.Driver == r.Spec.Driver {
				pool.use(result)
			}
		}
	}
	return pools, nil
}
