package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/cells"
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
