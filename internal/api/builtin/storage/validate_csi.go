package storage

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validateCSINode(_ context.Context, n *storagev1.CSINode) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&n.ObjectMeta, false, rules.Subdomain))
	seen := map[string]bool{}
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], e.Field("drivers").Item(i)
		csiNodeDriver(d, at)
		if seen[d.Name] {
			at.Field("name").Duplicate(d.Name)
		}
		seen[d.Name] = true
	}
	return e.List()
}

func csiNodeDriver(d *storagev1.CSINodeDriver, e rules.Errors) {
	e.CSIDriverName("name", d.Name)
	e.Present("nodeID", d.NodeID)
	if len(d.NodeID) > 256 {
		e.Field("nodeID").Invalid(d.NodeID, "must be 256 characters or less")
	}
	if a := d.Allocatable; a != nil {
		rules.NonnegativePtr(e.Field("allocatable"), "count", a.Count)
	}
	// Errors in keys are reported at the driver.
	keys := map[string]bool{}
	for _, key := range d.TopologyKeys {
		if key == "" {
			e.Required("")
		}
		if keys[key] {
			e.Duplicate(key)
		}
		keys[key] = true
		e.QualifiedName(key)
	}
}

func validateCSINodeUpdate(ctx context.Context, n, old *storagev1.CSINode) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta))
	e.Add(validateCSINode(ctx, n))
	for _, was := range old.Spec.Drivers {
		for _, is := range n.Spec.Drivers {
			if is.Name != was.Name {
				continue
			}
			// The number of attachable volumes may change with other devices.
			is.Allocatable, was.Allocatable = nil, nil
			e.Unchanged("drivers", is, was)
		}
	}
	return e.List()
}

func validateCSIDriver(_ context.Context, d *storagev1.CSIDriver) field.ErrorList {
	errs := rules.ObjectMeta(&d.ObjectMeta, false, rules.Subdomain)
	return append(errs, csiDriver(&d.Spec)...)
}

func validateCSIDriverUpdate(_ context.Context, d, old *storagev1.CSIDriver) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta))
	e.Add(csiDriver(&d.Spec))
	e.Unchanged("attachedRequired", d.Spec.AttachRequired, old.Spec.AttachRequired)
	e.Unchanged("volumeLifecycleModes", d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)
	return e.List()
}

func csiDriver(s *storagev1.CSIDriverSpec) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	required := func(name string, b *bool) {
		if b == nil {
			e.Field(name).Required("")
		}
	}
	required("attachedRequired", s.AttachRequired)
	required("podInfoOnMount", s.PodInfoOnMount)
	required("storageCapacity", s.StorageCapacity)
	required("seLinuxMount", s.SELinuxMount)
	if p := s.FSGroupPolicy; p != nil {
		rules.OneOf(e, "fsGroupPolicy", *p, []storagev1.FSGroupPolicy{
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
		})
	}
	seen := map[string]bool{}
	for i, t := range s.TokenRequests {
		at := e.Field("tokenRequests").Item(i)
		if seen[t.Audience] {
			at.Field("audience").Duplicate(t.Audience)
			continue
		}
		seen[t.Audience] = true
		if t.ExpirationSeconds != nil {
			at.Range("expirationSeconds", *t.ExpirationSeconds, 10*60, 1<<32)
		}
	}
	for _, m := range s.VolumeLifecycleModes {
		rules.OneOf(e, "volumeLifecycleModes", m, []storagev1.VolumeLifecycleMode{
			storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
		})
	}
	if p := s.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < 10 {
		e.Field("nodeAllocatableUpdatePeriodSeconds").Invalid(*p, "must be greater than or equal to 10 seconds")
	}
	if p := s.ServiceAccountTokenInSecrets; p != nil && len(s.TokenRequests) == 0 {
		e.Field("serviceAccountTokenInSecrets").Invalid(*p, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	return e.List()
}
