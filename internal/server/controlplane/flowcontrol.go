package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FlowControl returns the priority levels and flow schemas that a cluster starts with.
func FlowControl() (levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema, err error) {
	lines := json.NewDecoder(bytes.NewReader(firstObjects))
	for {
		var line json.RawMessage
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return levels, schemas, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("read the bootstrap objects: %w", err)
		}
		var t metav1.TypeMeta
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, nil, err
		}
		switch t.Kind {
		case "PriorityLevelConfiguration":
			var pl flowcontrolv1.PriorityLevelConfiguration
			if err := json.Unmarshal(line, &pl); err != nil {
				return nil, nil, err
			}
			levels = append(levels, &pl)
		case "FlowSchema":
			var fs flowcontrolv1.FlowSchema
			if err := json.Unmarshal(line, &fs); err != nil {
				return nil, nil, err
			}
			schemas = append(schemas, &fs)
		}
	}
}
