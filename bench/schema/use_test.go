package schema

import (
	"context"
	"testing"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// BenchmarkUsed tells what a schema takes once objects were validated, and with
// its type for field management.
func BenchmarkUsed(b *testing.B) {
	for _, which := range append(benchmarked, struct{ project, kind, version string }{"jobset", "JobSet", "v1alpha2"}) {
		b.Run(which.kind, func(b *testing.B) {
			k := find(b, which.project, which.kind, which.version)
			use := func() any {
				s, err := schema.Compile(k.props.DeepCopy(), schema.Options{})
				if err != nil {
					b.Fatal(err)
				}
				for _, obj := range k.objects {
					obj = cloneObject(obj)
					if _, err := s.Coerce(obj, schema.CoerceOptions{}); err == nil {
						s.Default(obj)
						s.ValidateCreate(context.Background(), obj)
					}
				}
				return s
			}
			for b.Loop() {
				use()
			}
			b.ReportMetric(retained(use), "validated-bytes")
			b.ReportMetric(retained(func() any {
				s := use()
				s.(*schema.Schema).Type()
				return s
			}), "typed-bytes")
		})
	}
}
