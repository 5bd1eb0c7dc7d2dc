package process

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/access/authz/bootstrap"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/observe/metrics"
)

// Shared is what takes time or memory to make and is the same for all control planes of a process: nothing in it depends
// on settings, and nothing changes once it is made. Several processes of a test binary may have one.
type Shared struct {
	// Expressions compiles the expressions of policies and webhooks, each once.
	Expressions *cel.Compiler
	// Types has the types of the built-in kinds for field management, decoded when first needed.
	Types *openapi.TypeConverter
	// Kinds has the built-in kinds that need nothing of a control plane.
	Kinds  *builtin.Shared
	policy func() (*bootstrap.Objects, error)
	// Collectors have the metrics of the process.
	Collectors []prometheus.Collector
}

// NewShared makes a Shared.
func NewShared() *Shared {
	usual := features.Set{}
	return &Shared{policy: sync.OnceValues(func() (*bootstrap.Objects, error) { return bootstrap.Policy(usual.Enabled) }),
		Expressions: cel.NewCompiler(), Types: openapi.NewTypeConverter(), Kinds: new(builtin.Shared), Collectors: metrics.Process()}
}

// Policy returns the RBAC policy that clusters start with. Its objects must not be changed: planes whose features are as they are
// by default share them.
func (s *Shared) Policy(gates features.Set) (*bootstrap.Objects, error) {
	if gates.Usual() {
		return s.policy()
	}
	return bootstrap.Policy(gates.Enabled)
}
