package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/flowcontrol"
)

// flowControl makes what shares the server among requests, nil where they are
// only counted.
func (s *Server) flowControl(register func(...prometheus.Collector)) *flowcontrol.Controller {
	if !s.cfg.PriorityAndFairness {
		return nil
	}
	m := flowcontrol.NewMetrics(register, s.clock.Now)
	return flowcontrol.New(s.cfg.MaxReadOnlyInFlight+s.cfg.MaxMutatingInFlight, clock.RealClock{}, s.objects.Size, m)
}

// flowFilter is the filter of flow control, nil where there is none.
func (s *Server) flowFilter() chain.Filter {
	if s.flow == nil {
		return nil
	}
	return s.flow.Filter(s.cfg.RequestTimeout)
}

func (s *Server) flowEndpoints() (levels, schemas *engine.Endpoint) {
	const group = flowcontrolv1.GroupName
	return s.builtin(group, "prioritylevelconfigurations"), s.builtin(group, "flowschemas")
}

// flowConsumer puts the stored objects of flow control into force.
func (s *Server) flowConsumer() *flowcontrol.Consumer {
	levels, schemas := s.flowEndpoints()
	return &flowcontrol.Consumer{Controller: s.flow, Levels: levels, Schemas: schemas, Ready: s.progress.flowConsumer.set}
}

// dangling keeps a condition of flow schemas.
func (s *Server) dangling() *flowcontrol.Dangling {
	levels, schemas := s.flowEndpoints()
	return &flowcontrol.Dangling{Schemas: schemas, Levels: levels, Clock: s.clock, Log: s.log}
}

// flowUpkeep keeps the objects of flow control that a cluster comes with.
func (s *Server) flowUpkeep() (*flowcontrol.Upkeep, error) {
	levels, schemas := s.flowEndpoints()
	u := &flowcontrol.Upkeep{Levels: levels, Schemas: schemas, Clock: s.clock, Log: s.log}
	lines := json.NewDecoder(bytes.NewReader(bootstrapObjects))
	for {
		var line json.RawMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return u, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the bootstrap objects: %w", err)
		}
		var t metav1.TypeMeta
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, err
		}
		switch t.Kind {
		case "PriorityLevelConfiguration":
			var pl flowcontrolv1.PriorityLevelConfiguration
			if err := json.Unmarshal(line, &pl); err != nil {
				return nil, err
			}
			u.WantedLevels = append(u.WantedLevels, &pl)
		case "FlowSchema":
			var fs flowcontrolv1.FlowSchema
			if err := json.Unmarshal(line, &fs); err != nil {
				return nil, err
			}
			u.WantedSchemas = append(u.WantedSchemas, &fs)
		}
	}
}
