package node

import (
	nodev1 "k8s.io/api/node/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func runtimeClassTable() *engine.Table {
	return engine.TableOf(runtimeClassRow,
		cells.Name(),
		cells.String("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]),
		cells.Age(),
	)
}

func runtimeClassRow(c *nodev1.RuntimeClass) []any {
	return []any{c.Name, c.Handler, cells.Since(c.CreationTimestamp)}
}
