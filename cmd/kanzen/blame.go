package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

func blameCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "blame KIND/NAME[@MOMENT]",
		Short: "Show who has last written each field of an object",
		Long: `Shows each field of an object with the user who has last written it, and when,
as far as the server's history goes back. Of older fields the field manager is
shown, with the time of its last write.

  kanzen blame deployment/web -n shop
  kanzen blame deployment/web@2h -n shop`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, o, err := a.one(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		fields, err := s.blame(cmd.Context(), o)
		if err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), fields)
		}
		return printBlame(cmd.OutOrStdout(), fields)
	}
	return cmd
}

// blamed is a field, and who has last written it.
type blamed struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	// Time is zero if it is not known.
	Time            time.Time `json:"time,omitzero"`
	By              string    `json:"by,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// blame finds out who has written the fields of an object.
func (a *asker) blame(ctx context.Context, o *called) ([]blamed, error) {
	var obj unstructured.Unstructured
	if err := a.ask(ctx, http.MethodGet, o.then(), "", nil, &obj.Object); err != nil {
		return nil, err
	}
	list, err := a.allRevisions(ctx, o)
	if err != nil {
		return nil, err
	}
	var fields []blamed
	managed := obj.GetManagedFields()
	meta, _ := obj.Object["metadata"].(map[string]any)
	for _, name := range bookkeeping {
		delete(meta, name)
	}
	jsonobject.LeavesAt("", obj.Object, func(path string, value any) {
		fields = append(fields, blamed{Path: path, Value: unlessSecret(o.kind(), value)})
	})
	owners := managersByPath(managed, obj.Object)
	for n := range fields {
		f := &fields[n]
		if r := lastWriter(list, f.Path, string(obj.GetUID())); r != nil {
			f.Time, f.ResourceVersion = r.Time.Time, r.ResourceVersion
			f.By = strings.TrimPrefix(byWhom(r), " by ")
		} else if m := owners[f.Path]; m != nil {
			f.By = m.Manager
			if m.Time != nil {
				f.Time = m.Time.Time
			}
		}
	}
	return fields, nil
}

// lastWriter returns the newest change of a field of the object with a UID; nil: it is older than what is known.
func lastWriter(list *historyv1.RevisionList, path, uid string) *historyv1.Revision {
	for n := range list.Items {
		r := &list.Items[n]
		if r.UID != uid {
			return nil // an earlier object of that name
		}
		if r.Operation == historyv1.Created || r.MoreChanges {
			return r
		}
		if slices.ContainsFunc(r.Changes, func(c historyv1.FieldChange) bool {
			return c.Path == path || above(c.Path, path) || above(path, c.Path)
		}) {
			return r
		}
	}
	return nil
}

// above says that a field is in another one.
func above(upper, path string) bool {
	rest, ok := strings.CutPrefix(path, upper)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// managersByPath finds the manager of each field. Of several the one that has written last counts.
func managersByPath(managed []metav1.ManagedFieldsEntry, obj map[string]any) map[string]*metav1.ManagedFieldsEntry {
	out := map[string]*metav1.ManagedFieldsEntry{}
	slices.SortStableFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { return timeOf(&a).Compare(timeOf(&b)) })
	for n := range managed {
		m := &managed[n]
		var set map[string]any
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		ownedFields(set, obj, "", func(path string) { out[path] = m })
	}
	return out
}

func timeOf(m *metav1.ManagedFieldsEntry) time.Time {
	if m.Time == nil {
		return time.Time{}
	}
	return m.Time.Time
}

// ownedFields passes on the paths of the fields of a value that a field set has.
func ownedFields(set map[string]any, value any, path string, yield func(path string)) {
	below := func(sub any, value any, at string) {
		s, _ := sub.(map[string]any)
		if len(s) == 0 || len(s) == 1 && s["."] != nil {
			jsonobject.LeavesAt(at, value, func(path string, _ any) { yield(path) })
			return
		}
		ownedFields(s, value, at, yield)
	}
	for element, sub := range set {
		kind, text, ok := strings.Cut(element, ":")
		if !ok {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			if is, has := v[text]; kind == "f" && has {
				below(sub, is, jsonobject.Below(path, text))
			}
		case []any:
			for n, item := range v {
				if selects(kind, text, item, n) {
					below(sub, item, fmt.Sprintf("%s[%d]", path, n))
				}
			}
		}
	}
}

// selects says that an element of a field set stands for an item of a list.
func selects(kind, text string, item any, n int) bool {
	var want any
	if json.Unmarshal([]byte(text), &want) != nil {
		return false
	}
	switch kind {
	case "v":
		return fmt.Sprint(want) == fmt.Sprint(item)
	case "i":
		return fmt.Sprint(want) == fmt.Sprint(n)
	}
	keys, _ := want.(map[string]any)
	have, _ := item.(map[string]any)
	for key, value := range keys {
		if fmt.Sprint(have[key]) != fmt.Sprint(value) {
			return false
		}
	}
	return kind == "k" && len(keys) > 0
}

func printBlame(w io.Writer, fields []blamed) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		when := "-"
		if !f.Time.IsZero() {
			when = f.Time.Local().Format(time.DateTime)
		}
		tell(t, "%s\t%s\t%s: %s\n", when, cmp.Or(f.By, "-"), f.Path, shownValue(f.Value))
	}
	return t.Flush()
}
