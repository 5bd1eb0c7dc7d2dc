package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func podDisruptionBudgetTable() *engine.Table {
	return engine.TableOf(podDisruptionBudgetRow,
		cells.Name(),
		cells.String("Min Available", "How many pods must stay available."),
		cells.String("Max Unavailable", "How many pods may be unavailable."),
		cells.Integer("Allowed Disruptions", "How many pods may be disrupted now."),
		cells.Age(),
	)
}

func podDisruptionBudgetRow(b *policyv1.PodDisruptionBudget) []any {
	orNA := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{
		b.Name, orNA(b.Spec.MinAvailable), orNA(b.Spec.MaxUnavailable),
		int64(b.Status.DisruptionsAllowed), cells.Since(b.CreationTimestamp),
	}
}
