package apiextensions

import "github.com/kanzen-io/kanzen/internal/engine"

// customResourceDefinitionTable is nil: the default columns.
func customResourceDefinitionTable() *engine.Table { return nil }
