package goldens

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Op is one edit of a JSON document. Path is a JSON pointer. Op is "set"
// (missing parent objects are created; "-" appends to an array) or "del".
type Op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Request is one HTTP request. The body is built in this order:
//   - From "base": the manifest base/<base>.yaml; "live": the object the server
//     under test returns for GET on the base at that moment; "": Body.
//   - Ops are applied to it.
//   - or, BodyText is sent as it is, with ${pad} replaced by Pad letters.
//
// ${rv}, ${uid} and ${continue} in the path and the body stand for the
// metadata of the newest response (of the previous step, else of a GET of the base).
type Request struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	ContentType string          `json:"contentType,omitempty"`
	Accept      string          `json:"accept,omitempty"`
	From        string          `json:"from,omitempty"`
	Ops         []Op            `json:"ops,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"`
	BodyText    string          `json:"bodyText,omitempty"`
	Pad         int             `json:"pad,omitempty"`
}

// Case is one fact: a request and what upstream answers.
type Case struct {
	ID   string `json:"id"`
	Cat  string `json:"cat"`
	Base string `json:"base"` // manifest the case belongs to; its namespace is the place where it runs
	Kind string `json:"kind"`
	// Setup names bases that exist on the server before the case runs; empty: the base does not exist.
	Setup []string `json:"setup,omitempty"`
	// Steps are requests sent just before, whose answers are not compared.
	Steps []Request `json:"steps,omitempty"`
	Request
	CheckManaged bool   `json:"checkManaged,omitempty"`
	Expect       Expect `json:"expect"`
}

// Cause is one entry of status.details.causes, without its sentence.
type Cause struct {
	Reason string `json:"reason"`
	Field  string `json:"field"`
}

// Table is a meta.k8s.io/v1 Table without descriptions and ages.
type Table struct {
	Columns []Column `json:"columns"`
	Cells   [][]any  `json:"cells"`
}

// Column is name, type, format and priority of one table column.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format,omitempty"`
	Priority int    `json:"priority"`
}

// Expect is the normalized answer. No human-readable sentences are kept.
type Expect struct {
	Code     int      `json:"code"`
	Reason   string   `json:"reason,omitempty"`
	Details  string   `json:"details,omitempty"` // group/kind/name of status.details
	Causes   []Cause  `json:"causes,omitempty"`
	Warnings int      `json:"warnings,omitempty"`
	Type     string   `json:"type,omitempty"` // media type of the answer
	Object   any      `json:"object,omitempty"`
	Managed  any      `json:"managed,omitempty"`
	Table    *Table   `json:"table,omitempty"`
	Events   []string `json:"events,omitempty"` // watch: type and object name
	Words    string   `json:"words,omitempty"`  // the mark of the sentences
	said     []string // the sentences
}

// Base is one entry of base/index.json.
type Base struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`       // group.Kind, as in the file name
	Collection string `json:"collection"` // path of the collection, namespace included
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
}

func splitPointer(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(p[1:], "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

// Apply edits doc in place and returns it.
func Apply(doc any, ops []Op) (any, error) {
	var err error
	for _, op := range ops {
		if doc, err = applyOp(doc, splitPointer(op.Path), op); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	return doc, nil
}

func applyOp(doc any, parts []string, op Op) (any, error) {
	if len(parts) == 0 {
		return clone(op.Value), nil
	}
	switch d := doc.(type) {
	case nil:
		return applyOp(map[string]any{}, parts, op)
	case map[string]any:
		if len(parts) == 1 && op.Op == "del" {
			delete(d, parts[0])
			return d, nil
		}
		v, err := applyOp(d[parts[0]], parts[1:], op)
		if err == nil {
			d[parts[0]] = v
		}
		return d, err
	case []any:
		if parts[0] == "-" {
			return append(d, clone(op.Value)), nil
		}
		var i int
		if _, err := fmt.Sscanf(parts[0], "%d", &i); err != nil || i < 0 || i >= len(d) {
			return nil, fmt.Errorf("no array element %q", parts[0])
		}
		if len(parts) == 1 && op.Op == "del" {
			return append(d[:i:i], d[i+1:]...), nil
		}
		v, err := applyOp(d[i], parts[1:], op)
		if err == nil {
			d[i] = v
		}
		return d, err
	}
	return nil, fmt.Errorf("not a container")
}

func clone(v any) any {
	switch t := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(t))
		for k, e := range t {
			m[k] = clone(e)
		}
		return m
	case []any:
		a := make([]any, len(t))
		for i, e := range t {
			a[i] = clone(e)
		}
		return a
	}
	return v
}

func readCases(file string) ([]*Case, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	r := bufio.NewScanner(zr)
	r.Buffer(nil, 64<<20)
	var out []*Case
	for r.Scan() {
		c := &Case{}
		if err := json.Unmarshal(r.Bytes(), c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, r.Err()
}
