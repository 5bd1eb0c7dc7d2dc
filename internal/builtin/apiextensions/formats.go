package apiextensions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// warn warns of formats that nobody checks, of those that an update adds.
func warn(_ context.Context, d, old *apiextensionsv1.CustomResourceDefinition) []string {
	var known []string
	if old != nil {
		known = unknownFormats(old)
	}
	var out []string
	for _, f := range unknownFormats(d) {
		if !slices.Contains(known, f) {
			out = append(out, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	return out
}

func unknownFormats(d *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	note := func(p *props) bool {
		if p.Format != "" && !isFormat(p.Type, p.Format) {
			out = append(out, p.Format)
		}
		return false
	}
	if sharedBy(d.Spec.Versions).schema {
		within(schemaOf(&d.Spec.Versions[0]), note)
	} else {
		anySchema(&d.Spec, note)
	}
	return out
}

// isFormat says whether a format is one that values of a type are checked for.
func isFormat(of, format string) bool {
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
