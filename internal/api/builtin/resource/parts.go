package resource

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Rules for the common parts of claims, classes and slices.

// list validates each item, unless there are more than limit.
func list[T any](items []T, limit int, e rules.Errors, check func(item *T, e rules.Errors)) bool {
	if len(items) > limit {
		e.AddError(field.TooMany(e.Path(), len(items), limit))
		return false
	}
	for i := range items {
		check(&items[i], e.Item(i))
	}
	return true
}

// set is list for items with unique keys.
func set[T any, K comparable](items []T, limit int, e rules.Errors, key func(item *T) K, check func(item *T, e rules.Errors)) {
	if !list(items, limit, e, check) {
		return
	}
	seen := map[K]bool{}
	for i := range items {
		k := key(&items[i])
		if seen[k] {
			e.Item(i).Duplicate(k)
		}
		seen[k] = true
	}
}

func self(s *string) string { return *s }

func labelName(name *string, e rules.Errors) {
	e.Add(metavalidation.ValidateLabelName(*name, e.Path()))
}

func poolName(name string, e rules.Errors) {
	if !e.Present("pool", name) {
		return
	}
	at := e.Field("pool")
	poolParts(name, at)
}

func poolParts(name string, at rules.Errors) {
	if len(name) > resourcev1.PoolNameMaxLength {
		at.TooLong(resourcev1.PoolNameMaxLength)
	}
	for _, part := range strings.Split(name, "/") {
		at.Messages(part, validation.IsDNS1123Subdomain(part))
	}
}

// normalUUID validates a UUID, which must be in normalized form.
func normalUUID(id string, e rules.Errors) {
	if uuid.Validate(id) != nil || len(id) != 36 || id != strings.ToLower(id) {
		e.Invalid(id, "must be a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in lower case")
	}
}

var cIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// qualifiedName validates the name of an attribute or capacity in a field: an identifier, optionally with the domain of
// a driver.
func qualifiedName(name, value string, e rules.Errors) {
	parts := strings.Split(value, "/")
	if len(parts) > 2 {
		return
	}
	at := e.Field(name)
	id := parts[len(parts)-1]
	if len(parts) == 2 {
		if parts[0] == "" {
			at.Invalid("", "the domain must not be empty")
		} else {
			e.CSIDriverName(name, parts[0])
		}
		if id == "" {
			at.Invalid("", "the name must not be empty")
			return
		}
	}
	if len(id) > resourcev1.DeviceMaxIDLength {
		at.TooLong(resourcev1.DeviceMaxIDLength)
	}
	if !cIdentifier.MatchString(id) {
		at.Invalid(id, "must be a C identifier")
	}
}

// fullName is qualifiedName with a domain.
func fullName(name, value string, e rules.Errors) {
	qualifiedName(name, value, e)
	if !strings.Contains(value, "/") {
		e.Field(name).Invalid(value, "must have a domain")
	}
}

// rawObject validates a field with an arbitrary JSON object. A stored one may be longer.
func rawObject(raw []byte, limit int, stored bool, e rules.Errors) {
	var v any
	switch {
	case len(raw) == 0:
		e.Required("")
	case !stored && len(raw) > limit:
		e.TooLong(limit)
	case json.Unmarshal(raw, &v) != nil:
		e.Invalid("<value omitted>", "must be JSON")
	case v == nil:
		e.Required("")
	default:
		if _, ok := v.(map[string]any); !ok {
			e.Invalid("<value omitted>", "must be a valid JSON object")
		}
	}
}

func configuration(c *resourcev1.DeviceConfiguration, stored bool, e rules.Errors) {
	if c.Opaque == nil {
		e.Field("opaque").Required("")
		return
	}
	at := e.Field("opaque")
	at.CSIDriverName("driver", c.Opaque.Driver)
	rawObject(c.Opaque.Parameters.Raw, resourcev1.OpaqueParametersMaxLength, stored, at.Field("parameters"))
}

// selectors validates the selectors of devices. What is stored was compiled when it was new.
func (v *validator) selectors(items []resourcev1.DeviceSelector, stored bool, e rules.Errors) {
	list(items, resourcev1.DeviceSelectorsMaxSize, e, func(s *resourcev1.DeviceSelector, e rules.Errors) {
		switch {
		case s.CEL == nil:
			e.Field("cel").Required("")
		case !stored:
			v.cel.selector(e.Field("cel").Field("expression"), s.CEL.Expression)
		}
	})
}

var taintEffects = []resourcev1.DeviceTaintEffect{
	resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone,
}

func taint(t *resourcev1.DeviceTaint, e rules.Errors) {
	taintKey(t, e)
	taintEffect(t, e)
}

func taintKey(t *resourcev1.DeviceTaint, e rules.Errors) {
	labelName(&t.Key, e.Field("key"))
	e.Field("value").Messages(t.Value, validation.IsValidLabelValue(t.Value))
}

func taintEffect(t *resourcev1.DeviceTaint, e rules.Errors) {
	rules.RequiredOneOf(e, "effect", t.Effect, taintEffects)
}

func toleration(t *resourcev1.DeviceToleration, e rules.Errors) {
	if t.Key != "" {
		labelName(&t.Key, e.Field("key"))
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			e.Field("value").Invalid(t.Value, "must be empty for operator Exists")
		}
	case resourcev1.DeviceTolerationOpEqual:
		e.Field("value").Messages(t.Value, validation.IsValidLabelValue(t.Value))
	default:
		rules.RequiredOneOf(e, "operator", t.Operator, []resourcev1.DeviceTolerationOperator{
			resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists,
		})
	}
	if t.Effect != "" {
		rules.OneOf(e, "effect", t.Effect, taintEffects)
	}
}

// bindingConditions validates the conditions for which binding waits, and those at which it fails. Each list requires
// the other.
func bindingConditions(wait, giveUp []string, e rules.Errors) {
	waits, fails := e.Field("bindingConditions"), e.Field("bindingFailureConditions")
	set(wait, resourcev1.BindingConditionsMaxSize, waits, self, labelName)
	set(giveUp, resourcev1.BindingFailureConditionsMaxSize, fails, self, labelName)
	for i, c := range giveUp {
		for _, w := range wait {
			if c == w {
				fails.Item(i).Invalid(c, "is also in bindingConditions")
				break
			}
		}
	}
	if len(wait) == 0 && len(giveUp) > 0 {
		waits.Invalid(wait, "needed for bindingFailureConditions")
	}
	if len(giveUp) == 0 && len(wait) > 0 {
		fails.Invalid(giveUp, "needed for bindingConditions")
	}
}

var skipOperations = []resourcev1.SkipNodeOperation{
	resourcev1.SkipNodeOperationNodePrepareResources, resourcev1.SkipNodeOperationNodeUnprepareResources, resourcev1.SkipNodeOperationAll,
}

// skippedOperations validates the operations that nodes skip. What is prepared must be unprepared.
func skippedOperations(skipped []resourcev1.SkipNodeOperation, e rules.Errors) {
	at := e.Field("skipNodeOperations")
	set(skipped, math.MaxInt, at, func(s *resourcev1.SkipNodeOperation) resourcev1.SkipNodeOperation { return *s },
		func(s *resourcev1.SkipNodeOperation, e rules.Errors) {
			if !slices.Contains(skipOperations, *s) {
				e.AddError(field.NotSupported(e.Path(), *s, skipOperations))
			}
		})
	has := func(s resourcev1.SkipNodeOperation) bool { return slices.Contains(skipped, s) }
	if has(resourcev1.SkipNodeOperationNodePrepareResources) && !has(resourcev1.SkipNodeOperationNodeUnprepareResources) &&
		!has(resourcev1.SkipNodeOperationAll) {
		at.Invalid(skipped, "NodePrepareResources only with NodeUnprepareResources")
	}
}
