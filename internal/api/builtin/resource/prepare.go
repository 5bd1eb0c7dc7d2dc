package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func (d Deps) defaultClaim(c *resourcev1.ResourceClaim) {
	d.defaultClaimSpec(&c.Spec)
	if c.Status.Allocation != nil {
		for i := range c.Status.Allocation.Devices.Results {
			defaultTolerations(c.Status.Allocation.Devices.Results[i].Tolerations)
		}
	}
}

func (d Deps) defaultClaimSpec(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultCount(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for k := range r.FirstAvailable {
			sub := &r.FirstAvailable[k]
			defaultCount(&sub.AllocationMode, &sub.Count)
			defaultTolerations(sub.Tolerations)
		}
	}
}

func defaultCount[M ~string](mode *M, count *int64) {
	exact := M(resourcev1.DeviceAllocationModeExactCount)
	rules.Default(mode, exact)
	if *mode == exact {
		rules.Default(count, 1)
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		rules.Default(&list[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

func (d Deps) defaultSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		device := &s.Spec.Devices[i]
		for k := range device.Taints {
			d.defaultTaint(&device.Taints[k])
		}
	}
}

func (d Deps) defaultTaint(t *resourcev1.DeviceTaint) { d.defaultTime(&t.TimeAdded) }

func (d Deps) defaultTime(t **metav1.Time) {
	if *t == nil {
		now := metav1.NewTime(d.Now()).Rfc3339Copy()
		*t = &now
	}
}

// deviceID identifies an allocated device, or a share of one.
type deviceID struct{ driver, pool, device, share string }

func allocated(c *resourcev1.ResourceClaim) map[deviceID]bool {
	out := map[deviceID]bool{}
	if c.Status.Allocation == nil {
		return out
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		out[deviceID{r.Driver, r.Pool, r.Device, share(r.ShareID)}] = true
	}
	return out
}

func share(id *types.UID) string {
	if id == nil {
		return ""
	}
	return string(*id)
}

// dropDeallocated drops the status of devices that this update deallocates.
func dropDeallocated(c, old *resourcev1.ResourceClaim) {
	had, has := allocated(old), allocated(c)
	var left []resourcev1.AllocatedDeviceStatus
	for _, s := range c.Status.Devices {
		id := deviceID{s.Driver, s.Pool, s.Device, ""}
		if s.ShareID != nil {
			id.share = *s.ShareID
		}
		if !had[id] || has[id] {
			left = append(left, s)
		}
	}
	c.Status.Devices = left
}
