package exports

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file tells a provider which planes have bound its export: as a list, or as a list and what changes of it.

// member is a plane that has bound an export.
type member struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// memberEvent is a line of a watch. First come all planes as ADDED, then a BOOKMARK that says so, then the changes: ADDED for a plane
// that binds and for one whose claims change, DELETED for one that does not have it bound any more.
type memberEvent struct {
	Type   string  `json:"type"`
	Object *member `json:"object,omitempty"`
}

// watches reports whether a request asks for what changes, too.
func watches(r *http.Request) bool {
	is, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return is
}

// servePlanes answers with the planes whose records have a prefix.
func (e *Exports) servePlanes(w http.ResponseWriter, r *http.Request, v *view, prefix string) error {
	if r.Method != http.MethodGet {
		return apierrors.NewMethodNotSupported(resource, r.Method)
	}
	head, err := e.DB.Head(r.Context())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	records, err := readRecords(r.Context(), e.DB, prefix, head)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	items := make([]member, 0, len(records))
	for uid, r := range records {
		items = append(items, member{r.Plane, uid})
	}
	slices.SortFunc(items, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	if !watches(r) {
		answer(w, map[string]any{"items": items})
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)() // the export, or the server, is not what it was
	e.watchPlanes(ctx, w, items, prefix, head)
	return nil
}

// watchPlanes passes on planes, and what changes of them after a revision, until ctx ends or something fails: then the client asks anew.
func (e *Exports) watchPlanes(ctx context.Context, w http.ResponseWriter, items []member, prefix string, after int64) {
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
	names := map[string]string{} // by UIDs: of what is gone only the key is known
	for n := range items {
		names[items[n].UID] = items[n].Name
		if out.Encode(memberEvent{"ADDED", &items[n]}) != nil {
			return
		}
	}
	if out.Encode(memberEvent{Type: "BOOKMARK"}) != nil || flush() != nil {
		return
	}
	err := e.DB.Watch(ctx, kv.Watch{Key: prefix, Prefix: true, From: after + 1}, func(events []kv.Event, _ int64) error {
		for _, change := range events {
			uid := strings.TrimPrefix(string(change.Key), prefix)
			line := memberEvent{"DELETED", &member{names[uid], uid}}
			if delete(names, uid); !change.Deleted {
				var r record
				if err := json.Unmarshal(change.Value, &r); err != nil {
					return err
				}
				line.Type, line.Object.Name, names[uid] = "ADDED", r.Plane, r.Plane
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			return nil
		}
		return flush()
	})
	if err != nil && ctx.Err() == nil {
		e.Log.Debug("a watch of the planes of an export has ended", "error", err)
	}
}
