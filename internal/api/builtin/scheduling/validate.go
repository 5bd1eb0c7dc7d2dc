package scheduling

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	// maxUserPriority is the highest priority that users may define.
	maxUserPriority = 1_000_000_000
	systemPrefix    = "system-"
)

// System returns the classes of Kubernetes' own components, which always exist.
func System() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		c := &schedulingv1.PriorityClass{Value: value, Description: description}
		c.Name = name
		return c
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2*maxUserPriority+1000,
			"Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2*maxUserPriority,
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

func validate(_ context.Context, c *schedulingv1.PriorityClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, false, rules.Subdomain))
	if strings.HasPrefix(c.Name, systemPrefix) {
		if !isSystem(c) {
			e.Field("metadata").Field("name").Forbidden("priority class names with '" + systemPrefix + "' prefix are reserved for system use only. error: " + c.Name + " is not a known system priority class")
		}
	} else if c.Value > maxUserPriority {
		e.Field("value").Forbidden(fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxUserPriority))
	}
	if p := c.PreemptionPolicy; p != nil {
		rules.RequiredOneOf(e, "preemptionPolicy", *p, []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever})
	}
	return e.List()
}

func isSystem(c *schedulingv1.PriorityClass) bool {
	for _, s := range System() {
		if c.Name == s.Name && c.Value == s.Value && c.GlobalDefault == s.GlobalDefault {
			return true
		}
	}
	return false
}

func validateUpdate(_ context.Context, c, old *schedulingv1.PriorityClass) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	if c.Value != old.Value {
		e.Field("value").Forbidden("may not be changed in an update.")
	}
	e.Unchanged("preemptionPolicy", c.PreemptionPolicy, old.PreemptionPolicy)
	return e.List()
}

func checkDelete(_ context.Context, c *schedulingv1.PriorityClass) error {
	for _, s := range System() {
		if c.Name == s.Name {
			return apierrors.NewForbidden(schedulingv1.Resource("priorityclasses"), c.Name,
				errors.New("classes of the system cannot be deleted"))
		}
	}
	return nil
}
