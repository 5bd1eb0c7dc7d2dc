package kanzentest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"
)

// This file says what is wrong with a Match that no request has: which requests came near to it, and whether its resource is
// one.

// String is the match in words.
func (m Match) String() string {
	var words []string
	add := func(format, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("%s", m.Verbs)
	add("of %s", m.Resource)
	add("in %s", m.Namespace)
	add("named %q", m.Name)
	add("by %q", m.User)
	if m.Internal {
		words = append(words, "from inside the server")
	}
	if len(words) == 0 {
		return "any"
	}
	return strings.Join(words, " ")
}

// maxNear is how many requests are named that came near.
const maxNear = 5

// near returns the newest requests that fail a match by one of its fields alone.
func (r *record) near(m Match) []string {
	var relaxed []Match
	for _, relax := range []func(*Match){
		func(m *Match) { m.Verbs = "" }, func(m *Match) { m.Resource = "" }, func(m *Match) { m.Namespace = "" },
		func(m *Match) { m.Name = "" }, func(m *Match) { m.User = "" }, func(m *Match) { m.Internal = !m.Internal },
	} {
		other := m
		if relax(&other); other != m && other != (Match{}) { // the zero Match has all
			relaxed = append(relaxed, other)
		}
	}
	found, _ := r.find(relaxed)
	var lines []string
	for n := len(found) - 1; n >= 0 && len(lines) < maxNear; n-- {
		if line := found[n].String(); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// missed says what is known about a match that no request had.
func (s *Server) missed(m Match) string {
	near := s.record.near(m) // before there are requests of this func
	text := "no request came: " + m.String()
	if hint := s.resourceHint(m.Resource); hint != "" {
		text += "; " + hint
	}
	if len(near) > 0 {
		text += "; near to it, the newest first: " + strings.Join(near, ", ")
	}
	return text
}

// resourceHint says that there is no resource of a name, and which may be meant.
func (s *Server) resourceHint(wanted string) string {
	if wanted == "" {
		return ""
	}
	d, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		return ""
	}
	_, lists, _ := d.ServerGroupsAndResources() // some groups may be served by others, who do not answer
	meant := ""
	for _, list := range lists {
		group, _, grouped := strings.Cut(list.GroupVersion, "/")
		if !grouped {
			group = ""
		}
		for _, r := range list.APIResources {
			plural, sub, _ := strings.Cut(r.Name, "/")
			if (Match{Resource: wanted}).named(&Request{Group: group, Resource: plural, Subresource: sub}) {
				return ""
			}
			if sub == "" && (strings.EqualFold(r.Kind, wanted) || r.SingularName == wanted || slices.Contains(r.ShortNames, wanted)) {
				meant = r.Name
			}
		}
	}
	if meant != "" {
		return fmt.Sprintf("there is no resource %q, write %q", wanted, meant)
	}
	return fmt.Sprintf("there is no resource %q", wanted)
}
