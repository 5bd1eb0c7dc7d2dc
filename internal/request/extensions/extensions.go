// Package extensions names what this server adds to the API of kube-apiserver for clients that ask for it (docs/extensions.md). What is
// switched off is not known to the server: it ignores the parameters of it, as kube-apiserver does.
package extensions

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the extensions.
const (
	Visible    = "visible"    // ?visible=true: what the asker may see
	Namespaces = "namespaces" // ?namespaces=, ?namespaceSelector=: several namespaces
	Sort       = "sort"       // ?sort=: another order
	Fields     = "fields"     // ?fields=: only some fields
	Selectors  = "selectors"  // fieldSelector with in, notin, exists and !; indexes of custom resources
	Bundles    = "bundles"    // several objects, all or nothing
	Forks      = "forks"      // copies of the control plane
	History    = "history"    // ?at=, ?revisions=true: what objects were
)

// All returns all names.
func All() []string {
	return []string{Bundles, Fields, Forks, History, Namespaces, Selectors, Sort, Visible}
}

// Set is the extensions that are switched on.
type Set struct{ names []string }

// Has reports whether one is on.
func (s Set) Has(name string) bool { return slices.Contains(s.names, name) }

// Names are those that are on, sorted.
func (s Set) Names() []string { return s.names }

// Parse reads names: * is all of them, and a minus before a name leaves that out.
func Parse(values []string) (Set, error) {
	on := map[string]bool{}
	for _, value := range values {
		name, off := strings.CutPrefix(value, "-")
		switch {
		case value == "*":
			for _, n := range All() {
				if _, said := on[n]; !said {
					on[n] = true
				}
			}
		case !slices.Contains(All(), name):
			return Set{}, fmt.Errorf("%q is unknown; there are %s", name, strings.Join(All(), ", "))
		default:
			on[name] = !off
		}
	}
	var s Set
	for _, n := range All() {
		if on[n] {
			s.names = append(s.names, n)
		}
	}
	return s, nil
}
