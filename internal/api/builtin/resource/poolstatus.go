package resource

import (
	"fmt"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// poolStatusRequests ask once how many devices of pools are free. A controller answers in the status, which is then final.
func poolStatusRequests(v *validator) *engine.Resource {
	gv := resourcev1alpha3.SchemeGroupVersion
	return &engine.Resource{
		Plural: "resourcepoolstatusrequests", Kind: "ResourcePoolStatusRequest",
		ReturnDeleted: true,
		Versions: []*engine.Version{engine.VersionOf[resourcev1alpha3.ResourcePoolStatusRequest, resourcev1alpha3.ResourcePoolStatusRequestList](
			gv, func(r *resourcev1alpha3.ResourcePoolStatusRequest) { rules.DefaultPtr(&r.Spec.Limit, 100) })},
		Rules: engine.Typed[*resourcev1alpha3.ResourcePoolStatusRequest]{
			StatusApart:          true,
			Validate:             v.validatePoolStatusRequest,
			ValidateUpdate:       validatePoolStatusRequestUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.WithoutTable(engine.LoneStatus(engine.Typed[*resourcev1alpha3.ResourcePoolStatusRequest]{
			ValidateUpdate:       validatePoolStatus,
			NeedsResourceVersion: true,
		}))},
		Table: poolStatusTable(),
	}
}

func poolStatusTable() *engine.Table {
	return engine.TableOf(poolStatusRow,
		cells.Name(),
		cells.String("Driver", "The driver whose pools are asked for."),
		cells.String("Total", "The devices of all pools."),
		cells.String("Available", "The devices that can still be allocated."),
		cells.String("Allocated", "The devices that are allocated."),
		cells.String("Unavailable", "The devices that nobody can have."),
		cells.String("Errors", "The pools with errors."),
		cells.Integer("Pools", "The pools that were found."),
		cells.String("Status", "How far the request is: Pending, Complete, Failed."),
		cells.String("Completed", "How long ago it was answered."),
	)
}

func poolStatusRow(r *resourcev1alpha3.ResourcePoolStatusRequest) []any {
	row := func(total, available, allocated, unavailable, errors string, pools int32, status, completed string) []any {
		return []any{r.Name, r.Spec.Driver, total, available, allocated, unavailable, errors, int64(pools), status, completed}
	}
	if r.Status == nil {
		return row("-", "-", "-", "-", "-", 0, "Pending", "<none>")
	}
	pools := valueOf(r.Status.PoolCount)
	state, completed := answered(r.Status.Conditions)
	if state == "Failed" {
		return row("-", "-", "-", "-", "-", pools, state, completed)
	}
	if n := len(r.Status.Pools); state == "Complete" && int(pools) > n {
		state = fmt.Sprintf("Complete (%d/%d pools)", n, pools)
	}
	var total, available, allocated, unavailable, errors int32
	for _, p := range r.Status.Pools {
		total += valueOf(p.TotalDevices)
		available += valueOf(p.AvailableDevices)
		allocated += valueOf(p.AllocatedDevices)
		unavailable += valueOf(p.UnavailableDevices)
		if p.ValidationError != nil {
			errors++
		}
	}
	return row(fmt.Sprint(total), fmt.Sprint(available), fmt.Sprint(allocated), fmt.Sprint(unavailable), fmt.Sprint(errors), pools, state, completed)
}

// answered returns the first condition that says how a request ended, and since when it is complete.
func answered(conditions []metav1.Condition) (state, completed string) {
	for _, c := range conditions {
		switch {
		case c.Status != metav1.ConditionTrue:
		case c.Type == resourcev1alpha3.ResourcePoolStatusRequestConditionComplete:
			return "Complete", cells.Since(c.LastTransitionTime)
		case c.Type == resourcev1alpha3.ResourcePoolStatusRequestConditionFailed:
			return "Failed", "<none>"
		}
	}
	return "Pending", "<none>"
}

func valueOf(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
