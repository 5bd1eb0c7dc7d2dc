package crd

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// ageColumn is the column of a definition without columns.
var ageColumn = apiextensionsv1.CustomResourceColumnDefinition{
	Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
	Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
}

// column is an additional printer column of a definition.
type column struct {
	apiextensionsv1.CustomResourceColumnDefinition
	path *jsonpath.JSONPath
}

// tableOf returns the table of a version's objects. It leaves out the first column with an invalid path and all columns
// after it.
func tableOf(defs []apiextensionsv1.CustomResourceColumnDefinition) *engine.Table {
	if len(defs) == 0 {
		defs = []apiextensionsv1.CustomResourceColumnDefinition{ageColumn}
	}
	t := &engine.Table{Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}}}
	var columns []column
	for _, d := range defs {
		p := parsePath(d.Name, d.JSONPath)
		if p == nil {
			break
		}
		description := d.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + d.JSONPath
		}
		columns = append(columns, column{d, p})
		t.Columns = append(t.Columns, metav1.TableColumnDefinition{
			Name: d.Name, Type: d.Type, Format: d.Format, Description: description, Priority: d.Priority})
	}
	t.Row = func(obj engine.Object) ([]any, []metav1.TableRowCondition) {
		cells := []any{obj.GetName()}
		for _, c := range columns {
			cells = append(cells, c.cell(content(obj)))
		}
		return cells, nil
	}
	return t
}

// parsePath parses a JSON path; it returns nil for an invalid one. The result keeps state during a search, so each
// search clones it.
func parsePath(name, path string) *jsonpath.JSONPath {
	p := jsonpath.New(name).AllowMissingKeys(true)
	if p.Parse("{"+path+"}") != nil {
		return nil
	}
	return p
}

// cell returns the column's value for an object, or nil if there is none of the column's type.
func (c *column) cell(obj map[string]any) any {
	v, ok := lookup(c.path, obj)
	if !ok {
		return nil
	}
	switch c.Type {
	case "string":
		var buf bytes.Buffer
		if err := c.path.PrintResults(&buf, []reflect.Value{reflect.ValueOf(v)}); err != nil {
			return nil
		}
		return buf.String()
	case "integer":
		switch n := v.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := v.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := v.(bool); ok {
			return b
		}
	case "date":
		if s, ok := v.(string); ok {
			return age(s)
		}
	}
	return nil
}

// age returns the time since the timestamp s.
func age(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case s == "" || s == "null":
		return "<unknown>"
	case err != nil:
		return "<invalid>"
	}
	return duration.HumanDuration(time.Since(t))
}

// lookup returns the single value at a path.
func lookup(p *jsonpath.JSONPath, obj map[string]any) (any, bool) {
	found, err := p.FindResults(obj)
	if err != nil || len(found) == 0 || len(found[0]) == 0 || !found[0][0].IsValid() || !found[0][0].CanInterface() {
		return nil, false
	}
	return found[0][0].Interface(), true
}

// fieldsOf returns a func that extracts the values of a version's selectable fields. A path with more than one result
// yields no value.
func fieldsOf(defs []apiextensionsv1.SelectableField) func(obj engine.Object) fields.Set {
	type selectable struct {
		name string
		path *jsonpath.JSONPath
	}
	var all []selectable
	for _, d := range defs {
		all = append(all, selectable{strings.TrimPrefix(d.JSONPath, "."), parsePath("selectableField", d.JSONPath)})
	}
	return func(obj engine.Object) fields.Set {
		set := make(fields.Set, len(all))
		for _, s := range all {
			set[s.name] = ""
			if s.path == nil {
				continue
			}
			if v, ok := lookup(s.path, content(obj)); ok && v != nil {
				set[s.name] = fmt.Sprint(v)
			}
		}
		return set
	}
}
