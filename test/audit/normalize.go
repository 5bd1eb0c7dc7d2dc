package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"sort"
	"strings"
)

// volatile are fields that differ from one run to the next.
var volatile = []string{"requestReceivedTimestamp", "stageTimestamp", "uid", "resourceVersion", "creationTimestamp", "time",
	"startTime", "lastTransitionTime", "lastProbeTime", "selfLink", "deletionTimestamp",
	"description", "cells", "serverAddressByClientCIDRs"}

// latency begins the annotations that say where the time of a slow request went: a busy machine makes any request slow.
const latency = "apiserver.latency.k8s.io/"

// events reads an audit log and returns the events of our requests, a line
// each, in an order of their own.
func events(log []byte) ([]string, error) {
	type line struct{ id, text string }
	var lines []line
	s := bufio.NewScanner(bytes.NewReader(log))
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var ev map[string]any
		if err := json.Unmarshal(s.Bytes(), &ev); err != nil {
			return nil, fmt.Errorf("%q: %w", s.Text(), err)
		}
		id, _ := ev["auditID"].(string)
		if !strings.HasPrefix(id, "ask-") {
			continue
		}
		text, err := normal(s.Bytes())
		if err != nil {
			return nil, err
		}
		stage := map[any]string{"RequestReceived": "1", "ResponseStarted": "2"}[ev["stage"]]
		lines = append(lines, line{id + stage, text})
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].id < lines[j].id })
	var out []string
	for _, l := range lines {
		out = append(out, l.text)
	}
	return out, s.Err()
}

// normal is an event without what differs from run to run.
func normal(event []byte) (string, error) {
	var ev map[string]any
	if err := json.Unmarshal(event, &ev); err != nil {
		return "", err
	}
	clean(ev)
	text, err := json.Marshal(ev)
	return string(text), err
}

// clean takes out what is volatile, and what is not about auditing: the state
// of a cluster that has run a while, tables' ages.
func clean(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range volatile {
			delete(v, name)
		}
		delete(v, "managedFields")
		maps.DeleteFunc(v, func(name string, _ any) bool { return strings.HasPrefix(name, latency) })
		if v["code"] == float64(400) {
			delete(v, "message") // says how a decoder of Go words it
		}
		for _, inner := range v {
			clean(inner)
		}
	case []any:
		for _, inner := range v {
			clean(inner)
		}
	}
}
