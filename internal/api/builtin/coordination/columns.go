package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func leaseTable() *engine.Table {
	return engine.TableOf(leaseRow,
		cells.Name(),
		cells.String("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
		cells.Age(),
	)
}

func leaseRow(l *coordinationv1.Lease) []any {
	return []any{l.Name, cells.Deref(l.Spec.HolderIdentity, ""), cells.Since(l.CreationTimestamp)}
}

func candidateTable() *engine.Table {
	spec := coordinationv1beta1.LeaseCandidateSpec{}.SwaggerDoc()
	return engine.TableOf(candidateRow,
		cells.Name(),
		cells.String("LeaseName", spec["leaseName"]),
		cells.String("BinaryVersion", spec["binaryVersion"]),
		cells.String("EmulationVersion", spec["emulationVersion"]),
		cells.Age(),
	)
}

func candidateRow(c *coordinationv1beta1.LeaseCandidate) []any {
	return []any{c.Name, c.Spec.LeaseName, c.Spec.BinaryVersion, c.Spec.EmulationVersion, cells.Since(c.CreationTimestamp)}
}
