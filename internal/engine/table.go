package engine

import (
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

var tableGVK = metav1.SchemeGroupVersion.WithKind("Table")

// defaultTable prints a kind that says nothing of itself.
var defaultTable = &Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	},
	Row: func(obj Object) ([]any, []metav1.TableRowCondition) {
		return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}, nil
	},
}

// scaleTable prints scales.
var scaleTable = &Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Desired", Type: "integer", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]},
		{Name: "Available", Type: "integer", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]},
		{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	},
	Row: func(obj Object) ([]any, []metav1.TableRowCondition) {
		s := obj.(*autoscalingv1.Scale)
		age := "<unknown>"
		if t := s.CreationTimestamp; !t.IsZero() {
			age = duration.HumanDuration(time.Since(t.Time))
		}
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), age}, nil
	},
}

// scaleTable prints scales; those of custom resources are told apart by what
// the columns say of themselves.
func (ep *Endpoint) scaleTable() *Table {
	if ep.typed {
		return scaleTable
	}
	t := *scaleTable
	t.Columns = slices.Clone(t.Columns)
	t.Columns[0].Format, t.Columns[len(t.Columns)-1].Type = "name", "date"
	return &t
}

func (ep *Endpoint) table() *Table {
	if ep.R.Table != nil {
		return ep.R.Table
	}
	return defaultTable
}

// includeObject reads how much of each object goes into a table's rows.
func (c *call) includeObject() (metav1.IncludeObjectPolicy, error) {
	switch p := metav1.IncludeObjectPolicy(c.req.URL.Query().Get("includeObject")); p {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return p, nil
	default:
		return "", apierrors.NewBadRequest("unrecognized includeObject value: must be None, Metadata or Object")
	}
}

// rows prints hub objects.
func (ep *Endpoint) rows(t *Table, objs []Object, include metav1.IncludeObjectPolicy) ([]metav1.TableRow, error) {
	rows := make([]metav1.TableRow, 0, len(objs))
	for _, obj := range objs {
		row := metav1.TableRow{}
		row.Cells, row.Conditions = t.Row(obj)
		switch include {
		case metav1.IncludeObject:
			out, err := ep.outgoing(obj)
			if err != nil {
				return nil, err
			}
			row.Object = marshalRaw(out)
		case metav1.IncludeMetadata:
			row.Object = marshalRaw(ep.partialOf(obj))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// writeTable answers with a table of hub objects.
func (c *call) writeTable(code int, out output, objs []Object, meta metav1.ListMeta) error {
	table, err := c.tableOf(c.table(), objs, meta)
	if err != nil {
		return err
	}
	return writeAny(c.w, c.req, code, out, table)
}

func (c *call) tableOf(t *Table, objs []Object, meta metav1.ListMeta) (*metav1.Table, error) {
	include, err := c.includeObject()
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(t, objs, include)
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{ListMeta: meta, ColumnDefinitions: t.Columns, Rows: rows}
	table.SetGroupVersionKind(tableGVK)
	return table, nil
}
