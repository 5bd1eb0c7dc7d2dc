// Package celltest compares tables with those that kube-apiserver printed for
// the same objects.
package celltest

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Kind is a kind's table and an empty object of it.
type Kind struct {
	Table *engine.Table
	New   func() engine.Object
}

// For returns the Kind of a Go type.
func For[T any, PT interface {
	*T
	engine.Object
}](table *engine.Table) Kind {
	return Kind{table, func() engine.Object { return PT(new(T)) }}
}

// recorded is what kube-apiserver printed for objects of one kind. Relative times are replaced by <age>, descriptions
// are omitted.
type recorded struct {
	Columns []metav1.TableColumnDefinition
	Rows    []struct {
		Object     json.RawMessage
		Cells      []any
		Conditions []metav1.TableRowCondition
	}
}

// Run compares the kinds with testdata/tables.json. Both must have the same kinds.
func Run(t *testing.T, kinds map[string]Kind) {
	t.Helper()
	b, err := os.ReadFile("testdata/tables.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]recorded
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for name := range kinds {
		if len(all[name].Rows) == 0 {
			t.Errorf("%s: nothing is recorded", name)
		}
	}
	for name, want := range all {
		t.Run(name, func(t *testing.T) {
			k, ok := kinds[name]
			if !ok {
				t.Fatal("no table")
			}
			want.compare(t, k)
		})
	}
}

func (want *recorded) compare(t *testing.T, k Kind) {
	columns := append([]metav1.TableColumnDefinition{}, k.Table.Columns...)
	for i := range columns {
		if columns[i].Description == "" {
			t.Errorf("column %s has no description", columns[i].Name)
		}
		columns[i].Description = ""
	}
	if !reflect.DeepEqual(columns, want.Columns) {
		t.Errorf("columns:\n got %v\nwant %v", columns, want.Columns)
	}
	for _, row := range want.Rows {
		obj := k.New()
		if err := json.Unmarshal(row.Object, obj); err != nil {
			t.Fatal(err)
		}
		cells, conditions := k.Table.Row(obj)
		if got := comparable(t, cells, row.Cells); !reflect.DeepEqual(got, row.Cells) {
			t.Errorf("%s:\n got %q\nwant %q", obj.GetName(), got, row.Cells)
		}
		for i := range conditions {
			conditions[i].Message = ""
		}
		if len(conditions)+len(row.Conditions) > 0 && !reflect.DeepEqual(conditions, row.Conditions) {
			t.Errorf("%s: conditions %v, want %v", obj.GetName(), conditions, row.Conditions)
		}
	}
}

var (
	age      = regexp.MustCompile(`^(\d+[smhdy])+$`)
	innerAge = regexp.MustCompile(`\((\d+[smhdy])+ ago\)`)
)

// comparable converts cells as a JSON round trip would, with ages replaced as in want. It fails on types that some
// encoding does not support.
func comparable(t *testing.T, cells, want []any) []any {
	out := make([]any, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case string:
			if i < len(want) && want[i] == "<age>" && age.MatchString(c) {
				c = "<age>"
			}
			out[i] = innerAge.ReplaceAllString(c, "(<age> ago)")
		case int64:
			out[i] = float64(c)
		case bool:
			out[i] = c
		default:
			t.Errorf("cell %d is a %T", i, c)
		}
	}
	return out
}
