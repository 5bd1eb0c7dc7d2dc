package apiextensions

import "github.com/kanzen-io/kanzen/internal/engine"

// customResourceDefinitionTable returns nil: the default columns.
func customResourceDefinitionTable() *engine.Table { return nil }
