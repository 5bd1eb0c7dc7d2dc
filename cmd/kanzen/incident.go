package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file reads what 'kanzen record' has written.

// incident is the first line of a file.
type incident struct {
	metav1.TypeMeta `json:",inline"`
	Server          string      `json:"server"`
	Version         string      `json:"version"`
	From            metav1.Time `json:"from"`
	To              metav1.Time `json:"to"`
	// Served are the resources of the server, so that they can be named as people do.
	Served []served `json:"served"`
}

// recorded is what a file holds.
type recorded struct {
	incident
	requests []json.RawMessage // newest first; a short text can say so much that it is decoded when it is needed
	findings []v1alpha1.Finding
	told     []json.RawMessage            // the same, as they are in the file
	others   map[string][]json.RawMessage // of the recorder's other kinds, and Events, in their order
	count    int                          // of others
}

// Bounds of a file that somebody else may have made.
const (
	maxIncidentLine     = 4 << 20
	maxIncident         = 256 << 20
	maxIncidentRequests = 1_000_000
	maxIncidentRequest  = 1 << 20 // bytes; decoded it is many times as large
	maxIncidentFindings = 10_000
	maxIncidentOthers   = 100_000
)

var errMuch = errors.New("it is larger than any file of kanzen record")

// readIncident reads a file of 'kanzen record', compressed or not.
func readIncident(path string) (*recorded, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var from io.Reader = in
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		if from, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("--from: %s: %w", path, err)
		}
	}
	limited := &io.LimitedReader{R: from, N: maxIncident}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxIncidentLine)
	r := &recorded{}
	for n := 0; lines.Scan(); n++ {
		err := r.line(lines.Bytes())
		if limited.N <= 0 || errors.Is(err, errMuch) {
			return nil, fmt.Errorf("--from: %s: %w", path, errMuch)
		}
		if err != nil || n == 0 && r.Kind != "Incident" {
			return nil, fmt.Errorf("--from: %s: line %d is not what kanzen record writes", path, n+1)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--from: %s: %w", path, err)
	}
	if r.Kind == "" {
		return nil, fmt.Errorf("--from: %s is empty", path)
	}
	return r, nil
}

func (r *recorded) line(text []byte) error {
	var t metav1.TypeMeta
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	switch t.Kind {
	case "Incident":
		return json.Unmarshal(text, &r.incident)
	case "Request":
		if len(r.requests) == maxIncidentRequests || len(text) > maxIncidentRequest {
			return errMuch
		}
		r.requests = append(r.requests, bytes.Clone(text))
	case "Finding":
		if len(r.findings) == maxIncidentFindings {
			return errMuch
		}
		var f v1alpha1.Finding
		if err := json.Unmarshal(text, &f); err != nil {
			return err
		}
		r.findings, r.told = append(r.findings, f), append(r.told, bytes.Clone(text))
	default:
		if t.APIVersion != v1alpha1.GroupVersion().String() && t.Kind != "Event" {
			return nil
		}
		if r.count++; r.count > maxIncidentOthers {
			return errMuch
		}
		if r.others == nil {
			r.others = map[string][]json.RawMessage{}
		}
		r.others[t.Kind] = append(r.others[t.Kind], bytes.Clone(text))
	}
	return nil
}

// remembered is a recorder that has seen the requests of the file.
func (r *recorded) remembered() (*recorder.Recorder, error) {
	known := recorder.New(recorder.Config{Memory: maxIncident, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
	for _, text := range slices.Backward(r.requests) {
		var q v1alpha1.Request
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, fmt.Errorf("--from: a request in the file is not what kanzen record writes: %w", err)
		}
		known.Take(&q.Record)
	}
	return known, nil
}
