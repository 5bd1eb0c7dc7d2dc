package schema

import (
	"slices"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// IsFormat reports whether values of a type are checked for a format. Other formats are ignored.
func IsFormat(of, format string) bool {
	switch of {
	case "integer":
		return format == "int32" || format == "int64"
	case "number":
		return format == "float" || format == "double"
	case "", "string":
		return slices.Contains([]string{
			"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac",
			"uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn",
			"hexcolor", "rgbcolor", "byte", "password", "date", "duration", "datetime",
			"k8sshortname", "k8slongname",
		}, strings.ReplaceAll(format, "-", ""))
	}
	return false
}

// formatCheck returns the check of strings for a format. Common formats are called directly, because the registry locks
// and searches.
func formatCheck(format string) func(string) bool {
	switch strings.ReplaceAll(format, "-", "") {
	case "datetime":
		return isDateTime
	case "date":
		return strfmt.IsDate
	case "duration":
		return strfmt.IsDuration
	case "hostname":
		return strfmt.IsHostname
	case "password":
		return func(string) bool { return true }
	}
	return func(s string) bool { return strfmt.Default.Validates(format, s) }
}

// isDateTime has a fast path for the form that Kubernetes itself writes.
func isDateTime(s string) bool {
	if len(s) == len("2006-01-02T15:04:05Z") && s[len(s)-1] == 'Z' {
		if _, err := time.Parse(time.RFC3339, s); err == nil {
			return true
		}
	}
	return strfmt.IsDateTime(s)
}
