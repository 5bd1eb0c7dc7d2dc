package rules

import "k8s.io/apimachinery/pkg/api/validate/content"

// PathSegment validates a required field whose value becomes a path segment.
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

// Segment is the rule for kinds whose names may be any path segment.
func Segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
