package resource

import (
	"context"
	"math"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func (v *validator) validateResourceClaimStatus(ctx context.Context, c, old *resourcev1.ResourceClaim) field.ErrorList {
	s, was := &c.Status, &old.Status
	e := rules.At(statusPath)
	v.adminResults(ctx, c, old, e)
	v.mayWriteStatus(ctx, c, old, e)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	names := namesOf(&c.Spec.Devices)

	reserved := e.Field("reservedFor")
	set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved,
		func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID },
		func(r *resourcev1.ResourceClaimConsumerReference, e rules.Errors) {
			e.Present("resource", r.Resource)
			e.Present("name", r.Name)
			e.Present("uid", string(r.UID))
		})
	has := allocated(c)
	set(s.Devices, math.MaxInt, e.Field("devices"), statusID, func(d *resourcev1.AllocatedDeviceStatus, e rules.Errors) {
		deviceStatus(d, has, e)
	})
	switch {
	case len(s.ReservedFor) == 0:
	case s.Allocation == nil:
		reserved.Forbidden("only for a claim with an allocation")
	case c.DeletionTimestamp != nil && !containsAll(was.ReservedFor, s.ReservedFor):
		reserved.Forbidden("cannot be added to while the claim is deleted")
	}
	switch {
	case s.Allocation == nil:
	case was.Allocation != nil:
		e.Unchanged("allocation", s.Allocation, was.Allocation)
	default:
		allocation(s.Allocation, names, e.Field("allocation"))
	}
	return e.List()
}

func containsAll[T comparable](all, some []T) bool {
	return !slices.ContainsFunc(some, func(x T) bool { return !slices.Contains(all, x) })
}

func statusID(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{d.Driver, d.Pool, d.Device, ""}
	if d.ShareID != nil {
		id.share = *d.ShareID
	}
	return id
}

// adminResults rejects allocations with administrative access outside of labelled namespaces, unless the claim has it
// already.
func (v *validator) adminResults(ctx context.Context, c, old *resourcev1.ResourceClaim, e rules.Errors) {
	if adminResult(old) < 0 {
		if i := adminResult(c); i >= 0 {
			path := statusPath.Child("allocation", "devices", "results").Index(i).Child("adminAccess")
			v.adminNamespace(ctx, c.Namespace, e.Elsewhere(path))
		}
	}
}

func adminResult(c *resourcev1.ResourceClaim) int {
	if c.Status.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(c.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

// mayWriteStatus checks permissions beyond updating the status: allocations require those of a scheduler, and device
// status those of the driver.
func (v *validator) mayWriteStatus(ctx context.Context, c, old *resourcev1.ResourceClaim, e rules.Errors) {
	if v.Gates.Off(features.DRAResourceClaimGranularStatusAuthorization) {
		return
	}
	s, was := &c.Status, &old.Status
	if v.MayBind != nil && (!apiequality.Semantic.DeepEqual(s.Allocation, was.Allocation) ||
		!apiequality.Semantic.DeepEqual(s.ReservedFor, was.ReservedFor)) {
		if err := v.MayBind(ctx); err != nil {
			e.Field("allocation").Forbidden(err.Error())
		}
	}
	if v.MayReport == nil || s.Allocation == nil {
		return
	}
	for _, driver := range changedDrivers(s.Devices, was.Devices) {
		if err := v.MayReport(ctx, driver, nodeOf(s.Allocation)); err != nil {
			e.Field("devices").Forbidden(err.Error())
		}
	}
}

func changedDrivers(devices, old []resourcev1.AllocatedDeviceStatus) []string {
	var out []string
	add := func(driver string) {
		if !slices.Contains(out, driver) {
			out = append(out, driver)
		}
	}
	left := map[deviceID]resourcev1.AllocatedDeviceStatus{}
	for i := range old {
		left[statusID(&old[i])] = old[i]
	}
	for i := range devices {
		id := statusID(&devices[i])
		was, found := left[id]
		delete(left, id)
		if !found || !apiequality.Semantic.DeepEqual(was, devices[i]) {
			add(devices[i].Driver)
		}
	}
	for _, d := range left {
		add(d.Driver)
	}
	slices.Sort(out)
	return out
}

// nodeOf returns the node of an allocation, empty if it is not for a single node.
func nodeOf(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	t := a.NodeSelector.NodeSelectorTerms[0]
	if len(t.MatchExpressions) != 0 || len(t.MatchFields) != 1 {
		return ""
	}
	f := t.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != "In" || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

func allocation(a *resourcev1.AllocationResult, names requestNames, e rules.Errors) {
	devices := e.Field("devices")
	list(a.Devices.Results, resourcev1.AllocationResultsMaxSize, devices.Field("results"),
		func(r *resourcev1.DeviceRequestAllocationResult, e rules.Errors) {
			names.check(&r.Request, e.Field("request"))
			e.CSIDriverName("driver", r.Driver)
			poolName(r.Pool, e)
			e.DNSLabel("device", r.Device)
			bindingConditions(r.BindingConditions, r.BindingFailureConditions, e)
			for i := range r.Tolerations {
				toleration(&r.Tolerations[i], e.Field("tolerations").Item(i))
			}
			skippedOperations(r.SkipNodeOperations, e)
			if r.ShareID != nil {
				normalUUID(string(*r.ShareID), e.Field("shareID"))
			}
		})
	list(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, devices.Field("config"),
		func(c *resourcev1.DeviceAllocationConfiguration, e rules.Errors) {
			rules.RequiredOneOf(e, "source", c.Source, []resourcev1.AllocationConfigSource{
				resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass,
			})
			set(c.Requests, resourcev1.DeviceRequestsMaxSize, e.Field("requests"), self, names.check)
			configuration(&c.DeviceConfiguration, false, e)
		})
	if a.NodeSelector != nil {
		rules.NodeSelector(a.NodeSelector, false, e.Field("nodeSelector"))
	}
}

func deviceStatus(d *resourcev1.AllocatedDeviceStatus, has map[deviceID]bool, e rules.Errors) {
	e.CSIDriverName("driver", d.Driver)
	poolName(d.Pool, e)
	e.DNSLabel("device", d.Device)
	if d.ShareID != nil {
		normalUUID(*d.ShareID, e.Field("shareID"))
	}
	if id := statusID(d); !has[id] {
		e.Invalid(id, "must be allocated to the claim")
	}
	conditions := e.Path().Child("conditions")
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		e.AddError(field.TooMany(conditions, n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	e.Add(metavalidation.ValidateConditions(d.Conditions, conditions))
	if d.Data != nil && len(d.Data.Raw) > 0 {
		rawObject(d.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength, false, e.Field("data"))
	}
	n := d.NetworkData
	if n == nil {
		return
	}
	at := e.Field("networkData")
	if len(n.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		at.Field("interfaceName").TooLong(resourcev1.NetworkDeviceDataInterfaceNameMaxLength)
	}
	if len(n.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		at.Field("hardwareAddress").TooLong(resourcev1.NetworkDeviceDataHardwareAddressMaxLength)
	}
	set(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, at.Field("ips"), self, func(address *string, e rules.Errors) {
		e.Add(validation.IsValidInterfaceAddress(e.Path(), *address))
	})
}
