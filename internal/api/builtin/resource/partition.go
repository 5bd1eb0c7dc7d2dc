package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// partitionType validates the attribute that tells what kind of partition each device is which consumes counters: all of
// them must have it.
func (v *validator) partitionType(s, old *resourcev1.ResourceSliceSpec, e rules.Errors) {
	if s.PartitionTypeAttribute == nil {
		return
	}
	name, at := string(*s.PartitionTypeAttribute), e.Field("partitionTypeAttribute")
	format := rules.At(e.Path())
	fullName("partitionTypeAttribute", name, format)
	if old == nil || old.PartitionTypeAttribute == nil || *old.PartitionTypeAttribute != *s.PartitionTypeAttribute {
		if v.Gates.Enabled(features.DRAPartitionableDevicesType) {
			e.Add(format.List())
		} else {
			at.Forbidden("")
		}
	}
	consume := 0
	for i := range s.Devices {
		if d := &s.Devices[i]; len(d.ConsumesCounters) > 0 {
			consume++
			if len(format.List()) == 0 {
				partitionLabel(d, name, s.Driver, e.Field("devices").Item(i).Field("attributes").Key(name))
			}
		}
	}
	if consume == 0 {
		at.Invalid(name, "needs devices that consume counters")
	}
}

// partitionLabel validates the attribute of one device. In the domain of the driver, its name may be without the domain.
func partitionLabel(d *resourcev1.Device, name, driver string, e rules.Errors) {
	a, found := d.Attributes[resourcev1.QualifiedName(name)]
	if short, own := strings.CutPrefix(name, driver+"/"); !found && own {
		a, found = d.Attributes[resourcev1.QualifiedName(short)]
	}
	switch {
	case !found:
		e.Required("named by partitionTypeAttribute")
	case a.StringValue == nil:
		e.Invalid(a, "must be a string, because partitionTypeAttribute names it")
	}
}
