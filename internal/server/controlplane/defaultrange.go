package controlplane

import (
	"context"
	"log/slog"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// kubernetes is the name of the service through which pods reach the API, and of the range of its address.
const kubernetes = "kubernetes"

// rangeEvery is the time between two looks at the default range.
const rangeEvery = 10 * time.Second

// managerRange is the field manager of the default range's status.
const managerRange = "kubernetes-service-cidr-controller"

// DefaultRange keeps the ServiceCIDR of the configured service addresses: it makes it if it is missing, also after an
// administrator has deleted one of another range, and reports it as ready. One with other addresses stays as it is.
type DefaultRange struct {
	*catalog.Raw
	// Client makes the writes, as the server itself.
	Client *inprocess.Client
	// CIDRs are the configured ranges, the primary one first.
	CIDRs []string
	Now   func() time.Time
	Log   *slog.Logger

	// warned says that another range was told of. One goroutine at a time uses it.
	warned bool
}

// Run keeps the range until ctx ends.
func (d *DefaultRange) Run(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	for {
		select {
		case <-after(rangeEvery):
		case <-ctx.Done():
			return
		}
		if err := d.Keep(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("could not keep the default range of service addresses", "error", err)
		}
	}
}

// Keep looks at the range once.
func (d *DefaultRange) Keep(ctx context.Context) error {
	ep, err := d.Endpoint(schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"})
	if err != nil {
		return err
	}
	all := inprocess.Target{Resource: ep.GVR}
	obj, err := ep.GetObject(ctx, "", kubernetes)
	if apierrors.IsNotFound(err) {
		made, err := d.Client.Managing(ManagerServer).Create(ctx, all, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: kubernetes}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: d.CIDRs}})
		if apierrors.IsAlreadyExists(err) {
			return nil // by another server; the next look finishes it if that server does not
		}
		if err != nil {
			return err
		}
		return d.report(ctx, all, made.(*networkingv1.ServiceCIDR))
	}
	if err != nil {
		return err
	}
	have := obj.(*networkingv1.ServiceCIDR)
	if len(d.CIDRs) == 2 && slices.Equal(have.Spec.CIDRs, d.CIDRs[:1]) {
		_, err := inprocess.Edit(ctx, d.Client.Managing(ManagerServer), all, request.Unchanged(have), func(r *networkingv1.ServiceCIDR) error {
			r.Spec.CIDRs = d.CIDRs
			return nil
		})
		return d.again(err)
	}
	return d.report(ctx, all, have)
}

// report sets the condition Ready of a range that has none.
func (d *DefaultRange) report(ctx context.Context, all inprocess.Target, have *networkingv1.ServiceCIDR) error {
	ready := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	switch {
	case have.DeletionTimestamp != nil:
		return nil
	case !slices.Equal(have.Spec.CIDRs, d.CIDRs):
		if !d.warned {
			d.Log.Warn("the default range of service addresses is not the configured one", "servicecidr", have.Spec.CIDRs, "configured", d.CIDRs)
		}
		d.warned = true
		return nil
	case ready != nil && ready.Status != metav1.ConditionUnknown:
		return nil
	}
	all.Subresource = "status"
	return d.again(d.Client.Managing(managerRange).Apply(ctx, all, request.Unchanged(have), map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": kubernetes},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"lastTransitionTime": d.Now().UTC().Format(time.RFC3339), "message": "Kubernetes default Service CIDR is ready",
		}}},
	}))
}

// again drops the errors after which the next look does what is left.
func (d *DefaultRange) again(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
