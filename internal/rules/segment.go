package rules

import "k8s.io/apimachinery/pkg/api/validate/content"

// PathSegment checks a required field whose value becomes part of a path.
func (e Errors) PathSegment(name, value string) {
	if e.Present(name, value) {
		e.OptionalPathSegment(name, value)
	}
}

// OptionalPathSegment is PathSegment for a field that may be empty.
func (e Errors) OptionalPathSegment(name, value string) {
	if m := content.IsPathSegmentName(value); len(m) > 0 {
		e.Field(name).Messages(value, m)
	}
}

// Segment is the rule for names of kinds that take any name that fits into a
// path.
func Segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
