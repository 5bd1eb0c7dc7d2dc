package process

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/cel"
	"github.com/kanzen-io/kanzen/internal/metrics"
	"github.com/kanzen-io/kanzen/internal/openapi"
)

// Shared is what takes time or memory to make and is the same for all control planes of a process: nothing in it depends
// on settings, and nothing changes once it is made. Several processes of a test binary may have one.
type Shared struct {
	// Expressions compiles the expressions of policies and webhooks, each once.
	Expressions *cel.Compiler
	// Types has the types of the built-in kinds for field management, decoded when first needed.
	Types *openapi.TypeConverter
	// Policy returns the RBAC policy that clusters start with. Its objects must not be changed.
	Policy func() (*bootstrap.Objects, error)
	// Collectors have the metrics of the process.
	Collectors []prometheus.Collector
}

// NewShared makes a Shared.
func NewShared() *Shared {
	return &Shared{Expressions: cel.NewCompiler(), Types: openapi.NewTypeConverter(), Policy: sync.OnceValues(bootstrap.Policy),
		Collectors: metrics.Process()}
}
