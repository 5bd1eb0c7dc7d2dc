package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/request"
)

// defaultTable prints kinds without a Table of their own.
var defaultTable = &Table{
	Columns: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	},
	Row: func(obj Object) ([]any, []metav1.TableRowCondition) {
		return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}, nil
	},
	NullRows: true,
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

// scaleTable prints scales; some formats and types of columns differ for custom
// resources.
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

// rowObject says how much of each object goes into a table's rows. Metadata is of the version of the table.
type rowObject struct {
	metav1.IncludeObjectPolicy
	out output
}

func (c *call) includeObject(out output) (rowObject, error) {
	switch p := metav1.IncludeObjectPolicy(c.req.URL.Query().Get("includeObject")); p {
	case "":
		return rowObject{metav1.IncludeMetadata, out}, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return rowObject{p, out}, nil
	default:
		return rowObject{}, apierrors.NewBadRequest(fmt.Sprintf(
			"Unable to convert to Table as requested: includeObject: Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", p))
	}
}

// rows prints hub objects.
func (ep *Endpoint) rows(ctx context.Context, t *Table, objs []Object, include rowObject) ([]metav1.TableRow, error) {
	if len(objs) == 0 && t.NullRows {
		return nil, nil
	}
	rows := make([]metav1.TableRow, 0, len(objs))
	for _, obj := range objs {
		row, err := ep.row(ctx, t, obj, include)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// row prints a hub object.
func (ep *Endpoint) row(ctx context.Context, t *Table, obj Object, include rowObject) (row metav1.TableRow, err error) {
	row.Cells, row.Conditions = t.Row(obj)
	switch include.IncludeObjectPolicy {
	case metav1.IncludeObject:
		if obj, err = ep.outgoing(ctx, obj); err != nil {
			return row, err
		}
		row.Object = marshalRaw(obj)
	case metav1.IncludeMetadata:
		row.Object = marshalRaw(ep.partialOf(obj, include.out))
	}
	return row, nil
}

// writeTableList answers with a page as a table, row by row.
func (c *call) writeTableList(out output, p *page) error {
	t := c.table()
	table, err := c.tableOf(out, t, nil, p.meta)
	if err != nil {
		return err
	}
	include, err := c.includeObject(out)
	if err != nil {
		return err
	}
	if len(p.items) == 0 {
		return writeAny(c.w, c.req, http.StatusOK, out, table)
	}
	if out.media != mediaJSON || request.AuditFrom(c.req.Context()).Wants(request.AuditRequestResponse) {
		if table.Rows, err = c.pageRows(t, p, include); err != nil {
			return err
		}
		return writeAny(c.w, c.req, http.StatusOK, out, table)
	}
	table.Rows = []metav1.TableRow{}
	head, err := json.Marshal(table)
	if err != nil {
		return err
	}
	l := jsonListing(out, bytes.TrimSuffix(head, []byte("]}")), len(p.items), func() itemFunc {
		row := c.rowsOf(t, p, include)
		return func(n int) (_, _ []byte, err error) {
			r, err := row(n)
			if err != nil {
				return nil, nil, err
			}
			b, err := json.Marshal(r)
			return nil, b, err
		}
	})
	l.same = false // the age of an object changes between the passes
	return c.writeListing(out, l)
}

// pageRows prints a page.
func (c *call) pageRows(t *Table, p *page, include rowObject) ([]metav1.TableRow, error) {
	rows := make([]metav1.TableRow, len(p.items))
	row := c.rowsOf(t, p, include)
	for n := range rows {
		err := ended(c.req.Context(), n)
		if err == nil {
			rows[n], err = row(n)
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// rowsOf prints the items of a page in turn.
func (c *call) rowsOf(t *Table, p *page, include rowObject) func(n int) (metav1.TableRow, error) {
	batch := c.batches(p.items)
	var objs []Object // a batch of objects, from number first on
	first := 0
	return func(n int) (row metav1.TableRow, err error) {
		if some := batch(n); some != nil {
			codec := c.R.Codec.(BatchCodec)
			if objs, err = c.decodeTogether(c.req.Context(), codec, some); err != nil {
				return row, err
			}
			first = n - n%together
		}
		var obj Object
		if objs != nil {
			obj, objs[n-first] = objs[n-first], nil
		} else if obj, err = c.Decode(c.req.Context(), p.items[n]); err != nil {
			return row, err
		}
		return c.row(c.req.Context(), t, obj, include)
	}
}

// writeTable answers with a table of hub objects.
func (c *call) writeTable(code int, out output, objs []Object, meta metav1.ListMeta) error {
	table, err := c.tableOf(out, c.table(), objs, meta)
	if err != nil {
		return err
	}
	return writeAny(c.w, c.req, code, out, table)
}

func (c *call) tableOf(out output, t *Table, objs []Object, meta metav1.ListMeta) (*metav1.Table, error) {
	include, err := c.includeObject(out)
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(c.req.Context(), t, objs, include)
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{ListMeta: meta, ColumnDefinitions: t.Columns, Rows: rows}
	table.SetGroupVersionKind(out.metaKind("Table"))
	return table, nil
}
