package resource

import (
	"math"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// maxValidValues bounds the valid values in a policy.
const maxValidValues = 10

// capacity validates the capacity of a device, and its policies for requests of parts of it. Only a device that several
// allocations share has policies.
func (v *validator) capacity(d *resourcev1.Device, e rules.Errors) {
	p := policies{fractions: v.Gates.Enabled(features.DRAFractionalCapacityRange)}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for name, c := range d.Capacity {
		qualifiedName("capacity", string(name), e)
		if c.RequestPolicy == nil {
			continue
		}
		at := e.Field("capacity").Key(shortened(string(name))).Field("requestPolicy")
		if shared {
			p.policy(c.RequestPolicy, c.Value, at)
		} else {
			at.Forbidden("needs allowMultipleAllocations")
		}
	}
}

// policies validates policies for requests of capacity.
type policies struct {
	fractions bool // of units are allowed
}

func (p policies) policy(r *resourcev1.CapacityRequestPolicy, capacity resource.Quantity, e rules.Errors) {
	switch {
	case len(r.ValidValues) > 0 && r.ValidRange != nil:
		e.Forbidden("either validValues or validRange")
	case len(r.ValidValues) == 0 && r.ValidRange == nil:
	case r.Default == nil:
		e.Field("default").Required("with validValues or validRange")
	case r.ValidRange != nil:
		p.validRange(r.ValidRange, *r.Default, capacity, e.Field("validRange"))
	default:
		p.validValues(r.ValidValues, *r.Default, capacity, e.Field("validValues"))
	}
}

func (p policies) validValues(values []resource.Quantity, standard, capacity resource.Quantity, e rules.Errors) {
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			e.Item(i).Invalid(values[i].String(), "must ascend")
		}
	}
	found := false
	set(values, maxValidValues, e, p.key, func(q *resource.Quantity, e rules.Errors) {
		if q.Cmp(capacity) > 0 {
			e.Invalid(q.String(), "is more than the capacity")
		}
		found = found || q.Cmp(standard) == 0
	})
	if !found {
		e.Invalid(standard.String(), "does not have the default")
	}
}

// key tells values apart.
func (p policies) key(q *resource.Quantity) string {
	if p.fractions {
		exact := q.DeepCopy() // which AsDec changes
		return exact.AsDec().String()
	}
	return strconv.FormatInt(q.Value(), 10)
}

func (p policies) validRange(r *resourcev1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, e rules.Errors) {
	atLeast, atMost, normal := e.Field("min"), e.Field("max"), e.Field("default")
	if r.Min == nil {
		atLeast.Required("")
		return
	}
	if r.Min.Cmp(capacity) > 0 {
		atLeast.Invalid(r.Min.String(), "is more than the capacity")
	}
	if standard.Cmp(*r.Min) < 0 {
		normal.Invalid(standard.String(), "is less than min")
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			atMost.Invalid(r.Max.String(), "is less than min")
		}
		if r.Max.Cmp(capacity) > 0 {
			atMost.Invalid(r.Max.String(), "is more than the capacity")
		}
		if standard.Cmp(*r.Max) > 0 {
			normal.Invalid(standard.String(), "is more than max")
		}
	}
	p.steps(r, standard, capacity, e)
}

// steps validates that steps from the minimum reach the default and the maximum. That is computed in integers: in
// thousandths if there are fractions.
func (p policies) steps(r *resourcev1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, e rules.Errors) {
	quantities := map[string]*resource.Quantity{"default": &standard, "min": r.Min, "max": r.Max, "step": r.Step}
	in := units
	if p.fractions && anyFraction(quantities) {
		in = thousandths
		if !in.hold(quantities, e) {
			return
		}
	}
	if r.Step == nil {
		return
	}
	step := e.Field("step")
	if r.Step.Sign() <= 0 {
		step.Invalid(r.Step.String(), "must be positive")
		return
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(capacity) > 0 {
		step.Invalid(r.Step.String(), "leads beyond the capacity")
	}
	if !in.hold(quantities, e) {
		return
	}
	reaches := func(q *resource.Quantity) bool { return (in.of(q)-in.of(r.Min))%in.of(r.Step) == 0 }
	if !reaches(&standard) {
		step.Invalid(standard.String(), "does not lead to the default")
	}
	if r.Max != nil && !reaches(r.Max) {
		step.Invalid(r.Max.String(), "does not lead to max")
	}
}

// integers are integers that quantities are computed in.
type integers struct {
	of   func(q *resource.Quantity) int64
	fits func(q *resource.Quantity) bool // Otherwise, what of returns has no meaning.
	why  string
}

var (
	units = integers{
		of:   (*resource.Quantity).Value,
		fits: func(q *resource.Quantity) bool { return q.Sign() >= 0 && q.CmpInt64(math.MaxInt64) <= 0 },
		why:  "must be from 0 to 9223372036854775807",
	}
	thousandths = integers{
		of: (*resource.Quantity).MilliValue,
		fits: func(q *resource.Quantity) bool {
			return q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), q.Format)) == 0
		},
		why: "must be a number of thousandths",
	}
)

// hold reports the quantities that do not fit.
func (in integers) hold(quantities map[string]*resource.Quantity, e rules.Errors) bool {
	ok := true
	for name, q := range quantities {
		if q != nil && !in.fits(q) {
			e.Field(name).Invalid(q.String(), in.why)
			ok = false
		}
	}
	return ok
}

func anyFraction(quantities map[string]*resource.Quantity) bool {
	for _, q := range quantities {
		if q == nil {
			continue
		}
		if whole := q.DeepCopy(); !whole.RoundUp(0) {
			return true
		}
	}
	return false
}
