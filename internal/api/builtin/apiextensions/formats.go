package apiextensions

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// warn returns warnings about unknown formats that a write adds.
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
		if p.Format != "" && !schema.IsFormat(p.Type, p.Format) {
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
