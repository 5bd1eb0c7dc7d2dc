package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// resources validates the requests and limits of a container or of the pod.
func (v *validator) resources(r *corev1.ResourceRequirements, name func(rules.Errors, corev1.ResourceName), e rules.Errors) {
	compute, hugePages := false, false
	one := func(n corev1.ResourceName, q resource.Quantity, e rules.Errors) {
		name(e, n)
		e.Quantity(n, q)
		switch {
		case n == corev1.ResourceCPU || n == corev1.ResourceMemory:
			compute = true
		case rules.IsHugePages(n):
			hugePages = true
			if !v.AllowIndivisibleHugePages && !rules.WholePages(n, q) {
				e.Invalid(q.String(), "must be a multiple of the page size")
			}
		}
	}
	for n, q := range r.Limits {
		one(n, q, e.Field("limits").Key(string(n)))
	}
	for n, q := range r.Requests {
		one(n, q, e.Field("requests").Key(string(n)))
		limit, limited := r.Limits[n]
		overcommit := rules.IsOvercommitAllowed(n)
		switch {
		case !limited && !overcommit:
			e.Field("limits").Required("Limit must be set for non overcommitable resources")
		case limited && !overcommit && q.Cmp(limit) != 0:
			e.Field("requests").Invalid(q.String(), fmt.Sprintf("must be equal to %s limit of %s", n, limit.String()))
		case limited && q.Cmp(limit) > 0:
			e.Field("requests").Invalid(q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", n, limit.String()))
		}
	}
	if hugePages && !compute {
		e.Forbidden("HugePages require cpu or memory")
	}
	if len(r.Claims) > 0 {
		v.claimNames(r.Claims, e.Field("claims"))
	}
}

// claimNames validates a container's references to the pod's claims: to a whole claim or to requests of it, each once.
func (v *validator) claimNames(claims []corev1.ResourceClaim, e rules.Errors) {
	used := map[string]bool{}
	for i, c := range claims {
		item := e.Item(i)
		if c.Name == "" {
			item.Required("")
			continue
		}
		if used[c.Name] {
			item.Duplicate(c.Name)
		} else {
			key := c.Name
			if c.Request != "" {
				item.DNSLabel("request", c.Request)
				key += "/" + c.Request
			}
			if used[key] {
				item.Duplicate(key)
			} else if c.Request == "" {
				for k := range used {
					if strings.HasPrefix(k, c.Name+"/") {
						item.Duplicate(c.Name)
					}
				}
			}
			used[key] = true
		}
		if !v.claims[c.Name] {
			item.NotFound(c.Name)
		}
	}
}

// podResources validates the pod-level resources against those of the containers.
func (v *validator) podResources(spec rules.Errors) {
	r := v.spec.Resources
	if r == nil {
		return
	}
	e := spec.Field("resources")
	if v.spec.OS != nil && v.spec.OS.Name == corev1.Windows {
		e.Forbidden("may not be set for a windows pod")
		return
	}
	if r.Claims != nil {
		e.Field("claims").Forbidden("claims may not be set for Resources at pod-level")
	}
	v.resources(r, podResourceName, e)
	requests := ContainerTotal(v.spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	for n, total := range requests {
		if q, found := r.Requests[n]; found && total.Cmp(q) > 0 {
			e.Field("requests").Key(string(n)).Invalid(q.String(), "must not be below what the containers request, "+total.String())
		}
	}
	limits := ContainerTotal(v.spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for n, total := range limits {
		if q, found := r.Limits[n]; found && rules.IsHugePages(n) && total.Cmp(q) > 0 {
			e.Field("limits").Key(string(n)).Invalid(q.String(), "must not be below the containers' limits, "+total.String())
		}
	}
	for i := range v.spec.Containers {
		for n, limit := range v.spec.Containers[i].Resources.Limits {
			if q, found := r.Limits[n]; found && limit.Cmp(q) > 0 {
				e.Field("containers").Item(i).Key(string(n)).Field("limits").Invalid(limit.String(), "must not be above the pod's limit, "+q.String())
			}
		}
	}
}

func podResourceName(e rules.Errors, name corev1.ResourceName) {
	before := len(e.List())
	e.ResourceName(name)
	if len(e.List()) == before && !isPodLevelResource(name) {
		requiredOneOfHere(e, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory})
	}
}
