package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FlowControl returns the priority levels and flow schemas that a cluster starts with. All servers of a process share them: they must not be
// changed.
func FlowControl() (levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema, err error) {
	read, err := flowControl()
	return read.levels, read.schemas, err
}

// flows are what FlowControl returns.
type flows struct {
	levels  []*flowcontrolv1.PriorityLevelConfiguration
	schemas []*flowcontrolv1.FlowSchema
}

var flowControl = sync.OnceValues(func() (read flows, err error) {
	lines := json.NewDecoder(bytes.NewReader(firstObjects))
	for {
		var line json.RawMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return read, nil
		} else if err != nil {
			return flows{}, fmt.Errorf("read the bootstrap objects: %w", err)
		}
		var t metav1.TypeMeta
		if err := json.Unmarshal(line, &t); err != nil {
			return flows{}, err
		}
		switch t.Kind {
		case "PriorityLevelConfiguration":
			var pl flowcontrolv1.PriorityLevelConfiguration
			if err := json.Unmarshal(line, &pl); err != nil {
				return flows{}, err
			}
			read.levels = append(read.levels, &pl)
		case "FlowSchema":
			var fs flowcontrolv1.FlowSchema
			if err := json.Unmarshal(line, &fs); err != nil {
				return flows{}, err
			}
			read.schemas = append(read.schemas, &fs)
		}
	}
})
