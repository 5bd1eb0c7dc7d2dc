package discovery

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priorities of groups that are not built in.
const (
	CustomGroupPriority   = 1000
	CustomVersionPriority = 100
)

type priority struct {
	group    int
	versions map[string]int
}

// priorities orders the built-in groups: higher first. They are also in the APIServices of these groups, where they are
// compared with those of other servers' groups.
var priorities = map[string]priority{
	"":                             {18000, map[string]int{"v1": 1}},
	"apiregistration.k8s.io":       {20000, map[string]int{"v1": 1}}, // has no APIService, and comes first
	"apps":                         {17800, map[string]int{"v1": 15}},
	"events.k8s.io":                {17750, map[string]int{"v1": 15}},
	"authentication.k8s.io":        {17700, map[string]int{"v1": 15, "v1alpha1": 1}},
	"authorization.k8s.io":         {17600, map[string]int{"v1": 15}},
	"autoscaling":                  {17500, map[string]int{"v2": 30, "v1": 15}},
	"batch":                        {17400, map[string]int{"v1": 15}},
	"certificates.k8s.io":          {17300, map[string]int{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
	"networking.k8s.io":            {17200, map[string]int{"v1": 15, "v1beta1": 9}},
	"policy":                       {17100, map[string]int{"v1": 15}},
	"rbac.authorization.k8s.io":    {17000, map[string]int{"v1": 15}},
	"storage.k8s.io":               {16800, map[string]int{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
	"apiextensions.k8s.io":         {16700, map[string]int{"v1": 15}},
	"admissionregistration.k8s.io": {16700, map[string]int{"v1": 15, "v1beta1": 12, "v1alpha1": 9}},
	"scheduling.k8s.io":            {16600, map[string]int{"v1": 15, "v1beta1": 9, "v1alpha3": 3, "v1alpha2": 2}},
	"coordination.k8s.io":          {16500, map[string]int{"v1": 15, "v1beta1": 13, "v1alpha2": 12}},
	"node.k8s.io":                  {16300, map[string]int{"v1": 15}},
	"discovery.k8s.io":             {16200, map[string]int{"v1": 15}},
	"resource.k8s.io":              {16200, map[string]int{"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}},
	"flowcontrol.apiserver.k8s.io": {16100, map[string]int{"v1": 21, "v1beta3": 18, "v1beta2": 15, "v1beta1": 12}},
	"internal.apiserver.k8s.io":    {16000, map[string]int{"v1alpha1": 9}},
	"storagemigration.k8s.io":      {15800, map[string]int{"v1": 15, "v1beta1": 9}},
	"lifecycle.k8s.io":             {15700, map[string]int{"v1alpha1": 1}},
}

// Priorities returns the priorities of a built-in group and version.
func Priorities(gv schema.GroupVersion) (group, version int) {
	p, ok := priorities[gv.Group]
	if !ok {
		return 1000, 15
	}
	if v, ok := p.versions[gv.Version]; ok {
		return p.group, v
	}
	return p.group, 1
}
