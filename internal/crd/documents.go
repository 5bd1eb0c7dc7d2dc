package crd

import (
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	crdopenapi "github.com/kanzen-io/kanzen/internal/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/openapi"
)

// OpenAPI returns the parts that custom resources add to the OpenAPI documents, by group and version. Their content is
// generated on demand.
func (s *Server) OpenAPI(b *crdopenapi.Builder) []openapi.Part {
	byGV, order := s.served()
	parts := make([]openapi.Part, 0, len(order))
	for _, gv := range order {
		var sources []crdopenapi.Source
		for _, d := range byGV[gv] {
			sources = append(sources, crdopenapi.Source{
				// The documents contain the accepted names.
				Hash: fmt.Sprint(d.uid, d.generation, d.accepted),
				Load: func() (*apiextensionsv1.CustomResourceDefinition, error) { return s.decode(d.item) },
			})
		}
		parts = append(parts, b.Part(gv.Group, gv.Version, time.Time{}, sources))
	}
	return parts
}
