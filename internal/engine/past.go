package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file answers what objects were: ?at= on get, list and watch, and ?revisions=true.

// Past is what is kept of objects beyond the log's compaction.
type Past interface {
	// Asked returns the revision that a text stands for. Errors: *store.MomentError, store.ErrCompacted.
	Asked(text string) (int64, error)
	// Revisions passes on the changes of a key, or with all of the keys that begin so, from a revision on to older ones.
	Revisions(ctx context.Context, key string, all bool, rev int64, yield func(*store.Revision) bool) (since int64, err error)
	// Keeps says whether the past of a kind is kept, all keys that begin so.
	Keeps(kind string) bool
	// Wrote says who made a revision.
	Wrote(rev int64, a store.Author)
}

// author tells the past who has made a revision, if one is kept.
func (w *write) author(ctx context.Context, rev int64) {
	if w.e.Past == nil || w.dryRun || !w.e.Past.Keeps(w.view.Below("")) {
		return
	}
	a := AuthorOf(ctx)
	a.UserAgent = w.agent
	w.e.Past.Wrote(rev, a)
}

// AuthorOf is who the request of a context is from.
func AuthorOf(ctx context.Context) store.Author {
	a := store.Author{Request: request.AuditIDFrom(ctx)}
	if u := request.UserFrom(ctx); u != nil {
		a.User = u.GetName()
	}
	if i := request.InfoFrom(ctx); i != nil {
		a.Verb, a.Subresource = i.Verb, i.Subresource
	}
	return a
}

// asksPast reports whether the request asks what objects were (at), and whether for their changes (revisions). The error is why it cannot be
// answered.
func (c *call) asksPast() (at, revisions bool, err error) {
	moment, changes := c.asked(extensions.History, "at"), c.asked(extensions.History, "revisions")
	if moment == "" && changes == "" {
		return false, false, nil
	}
	name := "at"
	if moment == "" {
		name = "revisions"
	}
	at, revisions = moment != "", changes == "true"
	refuse := func(format string, args ...any) error {
		return apierrors.NewBadRequest(name + ": " + fmt.Sprintf(format, args...))
	}
	verb := c.info.Verb
	switch {
	case c.e.Past == nil:
		err = refuse("this server keeps no history (--history)")
	case c.view == nil:
		err = refuse("%s are computed, and have no history", c.R.Plural)
	case !c.e.Past.Keeps(c.view.Below("")):
		err = refuse("no history is kept of %s (--history-kinds)", c.R.Plural)
	case c.info.Subresource != "" || verb != "get" && verb != "list" && verb != "watch":
		err = refuse("it is for get, list and watch")
	case !revisions && changes != "" && changes != "false":
		err = apierrors.NewBadRequest(fmt.Sprintf("revisions: %q is neither true nor false", changes))
	case revisions && c.watches():
		err = refuse("changes are for get and list")
	case c.asked(extensions.Visible, "visible") != "" || c.asked(extensions.Namespaces, "namespaces") != "" || c.asked(extensions.Namespaces, "namespaceSelector") != "":
		err = refuse("it goes with neither visible nor namespaces: what may be seen is a question of now")
	}
	return at, revisions, err
}

// watches says that the request is a watch, by its path or by its parameter.
func (c *call) watches() bool {
	w := c.req.URL.Query().Get("watch")
	return c.info.Verb == "watch" || w == "true" || w == "1"
}

// moment returns the revision that the request asks for with at; ok is false if it asks for none.
func (c *call) moment(ctx context.Context, resourceVersion string) (rev int64, ok bool, err error) {
	if !c.past {
		return 0, false, nil
	}
	if resourceVersion != "" {
		return 0, false, apierrors.NewBadRequest("at: resourceVersion says the same already")
	}
	at := c.asked(extensions.History, "at")
	rev, err = c.e.Past.Asked(at)
	if err == nil {
		err = c.waitFor(ctx, rev)
	}
	if err != nil {
		return 0, true, RefusePast(at, err)
	}
	from, err := c.mayLookFrom(ctx)
	if err == nil && rev < from {
		err = c.otherNamespace(from)
	}
	return rev, true, err
}

// mayLookFrom returns the revision before which the user may not look, 0 if there is none. A namespace that is made anew is another one: who
// has rights in it may have made it himself, to read what somebody else had kept in the one before.
func (c *call) mayLookFrom(ctx context.Context) (from int64, err error) {
	if !c.R.Namespaced || c.namespace == "" {
		return 0, nil
	}
	everywhere := *c.info
	everywhere.Namespace, everywhere.InNamespace = "", false
	if c.e.Authorize(ctx, &everywhere) == nil {
		return 0, nil
	}
	ns := c.e.Namespaces()
	since, err := c.e.Past.Revisions(ctx, ns.Below(c.namespace), false, ns.Store().Revision(), func(r *store.Revision) bool {
		if r.Created || r.Deleted {
			from = r.Rev
		}
		return from == 0
	})
	if errors.Is(err, store.ErrCompacted) { // it is not known since when there is this one
		err = c.otherNamespace(ns.Store().Revision())
	}
	return max(from, since), err
}

// otherNamespace refuses to tell what was before a revision.
func (c *call) otherNamespace(from int64) error {
	return apierrors.NewForbidden(c.gr(), c.name, fmt.Errorf("the namespace is not known to be the same before resourceVersion %d; what an earlier one of its name held is told to those who may %s %s in all namespaces", from, c.info.Verb, c.R.Plural))
}

// RefusePast is the answer to who asks for a moment that is not known; other errors stay what they are.
func RefusePast(at string, err error) error {
	var form *store.MomentError
	switch {
	case errors.As(err, &form):
		return apierrors.NewBadRequest("at: " + err.Error())
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired(fmt.Sprintf("at: the history does not reach back to %s", at))
	case errors.Is(err, store.ErrFuture):
		return apierrors.NewBadRequest("at: nothing is known of the future")
	}
	return err
}

// getPast returns the item at a key as of the moment that is asked for.
func (c *call) getPast(ctx context.Context, resourceVersion string) (*store.Item, error) {
	rev, _, err := c.moment(ctx, resourceVersion)
	if err != nil {
		return nil, err
	}
	var i *store.Item
	snap, err := c.view.SnapshotBeyond(ctx, rev)
	if err == nil {
		i, err = snap.Get(ctx, c.key(c.name))
	}
	if err == nil && i == nil {
		err = store.ErrNotFound
	}
	return i, RefusePast(c.asked(extensions.History, "at"), err)
}

// Bounds of an answer about revisions: of how many it tells, of how many fields of each, and of how many bytes of objects.
const (
	defaultRevisions, mostRevisions = 100, 1000
	mostChanges                     = 100
	mostRevisionBytes               = 32 << 20
)

// revisions answers with the changes of the object, or objects, that the path names.
func (c *call) revisions() error {
	ctx := c.req.Context()
	var o metav1.ListOptions
	if err := c.decodeQuery(&o); err != nil {
		return err
	}
	if o.LabelSelector != "" || o.FieldSelector != "" || o.Continue != "" {
		return apierrors.NewBadRequest("revisions: selectors and continue do not go with it; at= asks for older ones")
	}
	if err := c.view.Fresh(ctx); err != nil {
		return err
	}
	rev, asked, err := c.moment(ctx, o.ResourceVersion)
	if err != nil {
		return c.storeError(err, c.name)
	}
	if !asked {
		rev = c.view.Store().Revision()
	}
	list, err := c.listRevisions(ctx, rev, int(min(o.Limit, mostRevisions)))
	if err != nil {
		return c.storeError(err, c.name)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	defer c.answers().End()
	return writeJSON(c.w, c.req, http.StatusOK, output{media: mediaJSON}, b)
}

// listRevisions lists changes up to a revision, the newest first; limit 0: as many as is usual.
func (c *call) listRevisions(ctx context.Context, rev int64, limit int) (*historyv1.RevisionList, error) {
	from, err := c.mayLookFrom(ctx)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = defaultRevisions
	}
	key, all := c.key(c.name), c.name == ""
	if all {
		if key = ""; c.namespace != "" {
			key = c.namespace + "/"
		}
	}
	list := &historyv1.RevisionList{TypeMeta: metav1.TypeMeta{APIVersion: historyv1.GroupVersion.String(), Kind: "RevisionList"}, Items: []historyv1.Revision{}}
	teller := c.teller(ctx)
	size := 0
	since, err := c.e.Past.Revisions(ctx, c.view.Below(key), all, rev, func(r *store.Revision) bool {
		if ctx.Err() != nil || r.Rev < from {
			return false
		}
		if list.More = len(list.Items) == limit || size > mostRevisionBytes; list.More {
			return false
		}
		size += len(r.Now) + len(r.Prev)
		list.Items = append(list.Items, teller.tell(ctx, r))
		return true
	})
	list.Since = formatRev(max(since, from))
	return list, cmp.Or(err, ctx.Err())
}

// teller tells of changes.
type teller struct {
	*call
	who bool // also who has made them
	// The object that was decoded last, and of what: an object before a change is mostly that after the change before.
	of     []byte
	object map[string]any
	err    error
}

// teller returns what tells the user of changes. Who has made them is told to those whom the flight recorder tells.
func (c *call) teller(ctx context.Context) *teller {
	err := c.e.Authorize(ctx, &request.Info{IsResource: true, Verb: "list", Prefix: "apis", Group: "flightrecorder.kanzen.io", Version: "v1alpha1", Resource: "requests"})
	return &teller{call: c, who: err == nil}
}

// tell tells of one change.
func (c *teller) tell(ctx context.Context, r *store.Revision) historyv1.Revision {
	key := strings.TrimPrefix(r.Key, c.view.Below(""))
	out := historyv1.Revision{ResourceVersion: formatRev(r.Rev), Time: metav1.NewTime(r.Time), Operation: historyv1.Updated, Name: key}
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		out.Namespace, out.Name = namespace, name
	}
	if c.who {
		a := r.Author
		out.User, out.UserAgent, out.Verb, out.Subresource, out.Request = a.User, a.UserAgent, a.Verb, a.Subresource, a.Request
	}
	now, err := c.decoded(ctx, key, r.Now)
	prev, prevErr := c.decoded(ctx, key, r.Prev)
	if err := errors.Join(err, prevErr); err != nil {
		out.Unreadable = err.Error()
	}
	switch {
	case r.Created:
		out.Operation = historyv1.Created
	case r.Deleted:
		out.Operation = historyv1.Deleted
	}
	is := now
	if r.Deleted {
		is = prev
	}
	out.UID, _, _ = unstructured.NestedString(is, "metadata", "uid")
	if now == nil {
		return out
	}
	out.Managers = managersOf(prev, now)
	if prev == nil {
		return out
	}
	jsonobject.Differences(prev, now, func(path string, old, now any) bool {
		if path == "metadata.resourceVersion" || strings.HasPrefix(path, "metadata.managedFields") {
			return true
		}
		if out.MoreChanges = len(out.Changes) == mostChanges; !out.MoreChanges {
			out.Changes = append(out.Changes, historyv1.FieldChange{Path: path, Old: old, New: now})
		}
		return !out.MoreChanges
	})
	return out
}

// decoded returns the JSON of a stored value, in the version of the request; nil: there is none.
func (c *teller) decoded(ctx context.Context, key string, value []byte) (map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	if !bytes.Equal(value, c.of) {
		c.of = value
		c.object, c.err = c.decode(ctx, key, value)
	}
	return c.object, c.err
}

func (c *teller) decode(ctx context.Context, key string, value []byte) (map[string]any, error) {
	i := c.view.PastItem(ctx, key, 1, value) // whatever revision it has: it is not told
	if i.Err != nil {
		return nil, i.Err
	}
	b, err := c.json(ctx, i, c.prepared().forms.json)
	if err != nil {
		return nil, err
	}
	return jsonobject.Unmarshal(c.prepared().forms.json.object(b))
}

// managersOf are the managers that an object has and an earlier one has not, or with another time or other fields.
func managersOf(prev, now map[string]any) (names []string) {
	entries := func(obj map[string]any) map[string]string {
		out := map[string]string{}
		meta, _ := obj["metadata"].(map[string]any)
		all, _ := meta["managedFields"].([]any)
		for _, e := range all {
			if e, ok := e.(map[string]any); ok {
				name, _ := e["manager"].(string)
				out[name] += fmt.Sprint(e["subresource"], e["operation"], e["time"], e["fieldsV1"])
			}
		}
		return out
	}
	before := entries(prev)
	for name, is := range entries(now) {
		if before[name] != is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// snapshotAt returns the snapshot as of a revision: also one that the log has forgotten, if the request asks for the past.
func (c *call) snapshotAt(ctx context.Context, rev int64) (*store.Snapshot, error) {
	if c.past {
		return c.view.SnapshotBeyond(ctx, rev)
	}
	return c.view.SnapshotAt(ctx, rev)
}
