package rules

import (
	"path"
	"slices"
	"strings"
)

// RelativePath reports a field that is not a path downwards from where it starts.
func (e Errors) RelativePath(name, value string) {
	if path.IsAbs(value) {
		e.Field(name).Invalid(value, "must be a relative path")
	}
	e.NoBacksteps(name, value)
}

// NoBacksteps reports a path in a field that goes upwards anywhere.
func (e Errors) NoBacksteps(name, value string) {
	if HasBackstep(value) {
		e.Field(name).Invalid(value, "must not contain '..'")
	}
}

// HasBackstep says whether a path goes upwards anywhere.
func HasBackstep(value string) bool {
	return strings.Contains(value, "..") && slices.Contains(strings.Split(value, "/"), "..")
}

// VolumeFile reports a field that cannot be the name of a file in a volume.
// What starts with two dots is kept for the switch from old content to new.
func (e Errors) VolumeFile(name, value string) {
	e.RelativePath(name, value)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		e.Field(name).Invalid(value, "must not start with '..'")
	}
}

// FileMode reports permission bits that are none.
func (e Errors) FileMode(name string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		e.Field(name).Invalid(*mode, "must be between 0 and 0777 (octal), inclusive")
	}
}
