package server

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// flowControl makes the controller of priority and fairness, nil if requests
// are only counted.
func (b *base) flowControl() *flowcontrol.Controller {
	if !b.cfg.PriorityAndFairness {
		return nil
	}
	m := flowcontrol.NewMetrics(b.metrics.Registry(), b.process.Clock.Now)
	return flowcontrol.New(b.cfg.MaxReadOnlyInFlight+b.cfg.MaxMutatingInFlight, clock.RealClock{}, b.objects.Size, m)
}

// flowFilter returns the filter of flow control, nil if there is none.
func flowFilter(flow *flowcontrol.Controller, cfg *config.Plane) chain.Filter {
	if flow == nil {
		return nil
	}
	return flow.Filter(cfg.RequestTimeout)
}

func (b *base) flowEndpoints() (levels, schemas *engine.Endpoint) {
	const group = flowcontrolv1.GroupName
	return b.builtin(group, "prioritylevelconfigurations"), b.builtin(group, "flowschemas")
}

// flowConsumer makes the consumer that puts the stored objects of flow control
// into force.
func (b *base) flowConsumer(flow *flowcontrol.Controller, ready func()) *flowcontrol.Consumer {
	levels, schemas := b.flowEndpoints()
	return &flowcontrol.Consumer{Controller: flow, Levels: levels, Schemas: schemas, Ready: ready}
}

// dangling makes the writer of the flow schemas' condition Dangling.
func (b *base) dangling() *flowcontrol.Dangling {
	levels, schemas := b.flowEndpoints()
	return &flowcontrol.Dangling{Schemas: schemas, Levels: levels, Client: b.itself, Clock: b.process.Clock, Log: b.log}
}

// flowUpkeep makes the keeper of the flow control objects that every cluster
// has.
func (b *base) flowUpkeep() (*flowcontrol.Upkeep, error) {
	levels, schemas := b.flowEndpoints()
	u := &flowcontrol.Upkeep{Levels: levels, Schemas: schemas, Client: b.itself, Clock: b.process.Clock, Log: b.log}
	var err error
	u.WantedLevels, u.WantedSchemas, err = controlplane.FlowControl()
	return u, err
}
