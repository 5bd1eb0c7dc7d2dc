package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func leaseTable() *engine.Table {
	return &engine.Table{
		Columns: []cells.Column{
			cells.Name(),
			cells.String("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
			cells.Age(),
		},
		Row: engine.Row(leaseRow),
	}
}

func leaseRow(l *coordinationv1.Lease) []any {
	return []any{l.Name, cells.Deref(l.Spec.HolderIdentity, ""), cells.Since(l.CreationTimestamp)}
}

func candidateTable() *engine.Table {
	spec := coordinationv1beta1.LeaseCandidateSpec{}.SwaggerDoc()
	return &engine.Table{
		Columns: []cells.Column{
			cells.Name(),
			cells.String("LeaseName", spec["leaseName"]),
			cells.String("BinaryVersion", spec["binaryVersion"]),
			cells.String("EmulationVersion", spec["emulationVersion"]),
			cells.Age(),
		},
		Row: engine.Row(candidateRow),
	}
}

func candidateRow(c *coordinationv1beta1.LeaseCandidate) []any {
	return []any{c.Name, c.Spec.LeaseName, c.Spec.BinaryVersion, c.Spec.EmulationVersion, cells.Since(c.CreationTimestamp)}
}
