package engine

import "strings"

// Kinds returns built-in kinds with what they need not say, because it follows from the rest: the singular is the kind in lower
// case, the hub is the first version, and what no func computes is stored below its plural.
func Kinds(all ...*Resource) []*Resource {
	for _, r := range all {
		if r.Singular == "" {
			r.Singular = strings.ToLower(r.Kind)
		}
		if r.Hub.Empty() {
			r.Hub = r.Versions[0].GroupVersion
		}
		if r.Prefix == "" && r.Create == nil && r.Get == nil && r.List == nil {
			r.Prefix = r.Plural
		}
	}
	return all
}
