package rules

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// RelativePath reports a field that is not a relative path without "..".
func (e Errors) RelativePath(name, value string) {
	if path.IsAbs(value) {
		e.Field(name).Invalid(value, "must be a relative path")
	}
	e.NoBacksteps(name, value)
}

// NoBacksteps reports a path in a field that contains "..".
func (e Errors) NoBacksteps(name, value string) {
	if HasBackstep(value) {
		e.Field(name).Invalid(value, "must not contain '..'")
	}
}

// HasBackstep reports whether a path contains "..".
func HasBackstep(value string) bool {
	return strings.Contains(value, "..") && slices.Contains(strings.Split(value, "/"), "..")
}

// VolumeFile reports a field that cannot be a file name in a volume. Names with two leading dots are reserved for the
// atomic replacement of the content.
func (e Errors) VolumeFile(name, value string) {
	e.RelativePath(name, value)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		e.Field(name).Invalid(value, "must not start with '..'")
	}
}

// FileUser reports an invalid owner of files.
func (e Errors) FileUser(name string, user *int64) {
	if user != nil {
		e.Field(name).Messages(*user, validation.IsValidUserID(*user))
	}
}

// FileMode reports invalid permission bits.
func (e Errors) FileMode(name string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		e.Field(name).Invalid(*mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}
