// Package history is what a server keeps of objects beyond the compaction of the log: of the settings, and as the store, the engine and the API
// have it.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/past"
	"github.com/kanzen-io/kanzen/internal/store/past/replica"
)

// History is the past of a server's objects; it is nil if none is kept.
type History struct {
	*past.Past
	replica *replica.Replica // that the servers of an etcd share; nil: there is none
}

// New makes the history of the control plane at the root of a process, whose keys have a prefix in db. hostname is that of the server.
func New(root *config.Process, db store.DB, prefix, hostname string, clk clock.WithTicker, log *slog.Logger) *History {
	if root.History <= 0 || root.DataDir == "" {
		return nil
	}
	c := past.Config{Dir: filepath.Join(root.DataDir, "history"), Log: db, Near: !root.SharesEtcd(), Prefix: prefix, Age: agesOf(root), Bytes: root.HistorySize, Clock: clk, Logger: log}
	if !root.SharesEtcd() || root.HistoryEtcdSize == 0 {
		return &History{Past: past.New(c)}
	}
	kinds := slices.Sorted(slices.Values(root.HistoryKinds))
	copies := replica.New(replica.Config{DB: db, Prefix: "/kanzen/history" + prefix, Kept: strings.Join(append(kinds, root.History.String()), ","),
		Age: root.History, Bytes: root.HistoryEtcdSize, Server: hostname + "_" + uuid.NewString(), Clock: clk, Log: log})
	c.Restore = copies.Restore
	h := &History{Past: past.New(c), replica: copies}
	copies.Of(h.Past)
	return h
}

// agesOf says for how long changes of a kind of keys are kept. Keys of no API objects have no past.
func agesOf(root *config.Process) func(kind string) time.Duration {
	named, err := root.HistoryAges()
	if err != nil {
		named = nil // Validate has told of it
	}
	of := func(gr schema.GroupResource) time.Duration {
		if age, ok := named[gr]; ok {
			return age
		}
		return root.History
	}
	builtins := sync.OnceValue(func() map[string]time.Duration { // not before the server serves
		ages := map[string]time.Duration{}
		for _, r := range builtin.Resources(builtin.Deps{}) {
			for _, v := range r.Versions { // which may be of several groups
				key := r.Prefix + "/"
				age := of(schema.GroupResource{Group: v.Group, Resource: r.Plural})
				if _, ok := ages[key]; !ok || age != root.History {
					ages[key] = age
				}
			}
		}
		return ages
	})
	return func(kind string) time.Duration {
		if age, ok := builtins()[kind]; ok {
			return age
		}
		group, plural, ok := strings.Cut(strings.TrimSuffix(kind, "/"), "/")
		if !ok || !strings.Contains(group, ".") {
			return 0
		}
		return of(schema.GroupResource{Group: group, Resource: plural})
	}
}

// Moment is the revision that a text stands for. Without a history only revisions are known. Errors: those of past.Past.Asked.
func (h *History) Moment(at string) (int64, error) {
	if h != nil {
		return h.Asked(at)
	}
	rev, err := strconv.ParseInt(at, 10, 64)
	if err != nil || rev <= 0 {
		return 0, apierrors.NewBadRequest("at: this server keeps no history (--history): name a revision")
	}
	return rev, nil
}

// Refuse is engine.RefusePast for who asks for everything as of a moment: it says from when on that is known.
func (h *History) Refuse(at string, err error) error {
	if !errors.Is(err, store.ErrCompacted) || h == nil {
		return engine.RefusePast(at, err)
	}
	rev, since, kind, failed := h.Known()
	if failed != nil {
		return apierrors.NewInternalError(failed)
	}
	of := "the history"
	if kind != "" {
		of += " of " + strings.TrimSuffix(kind, "/")
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("at: %s does not reach back to %s: it begins at revision %d, %s", of, at, rev, since.Format(time.RFC3339)))
}

// Store is what the store has of it.
func (h *History) Store() store.Past {
	if h == nil {
		return nil
	}
	return h.Past
}

// Engine is what the engine has of it.
func (h *History) Engine() engine.Past {
	if h == nil {
		return nil
	}
	return h.Past
}

// Tasks are what runs for it. A history that cannot go on is no reason to end the server.
func (h *History) Tasks(log *slog.Logger) []guard.Task {
	if h == nil {
		return nil
	}
	tasks := []guard.Task{
		guard.Quiet("history", func(ctx context.Context) {
			if err := h.Run(ctx); err != nil && ctx.Err() == nil {
				log.Error("the history of objects is not recorded any more; to begin a new one, stop the server and move its directory away", "directory", h.Dir, "error", err)
			}
			<-ctx.Done()
		}),
		guard.Quiet("upkeep of the history", h.Maintain),
	}
	if h.replica != nil {
		tasks = append(tasks, guard.Quiet("replica of the history", h.replica.Run))
	}
	return tasks
}

// Resources are those by which the history is deleted; none is kept: none.
func (h *History) Resources(objects *catalog.Raw) []*engine.Resource {
	if h == nil {
		return nil
	}
	gv := historyv1.GroupVersion
	return []*engine.Resource{{
		Plural: "forgotten", Singular: "forgotten", Kind: "Forgotten", Hub: gv, Verbs: []string{"create"},
		Versions: []*engine.Version{engine.VersionOf[historyv1.Forgotten, historyv1.ForgottenList](gv, nil)},
		Create: func(ctx context.Context, obj engine.Object, check engine.Check, o *metav1.CreateOptions) (engine.Object, error) {
			if err := check(ctx, obj); err != nil {
				return nil, err
			}
			f := obj.(*historyv1.Forgotten)
			return f, h.forget(ctx, objects, f, admission.IsDryRun(o.DryRun))
		},
	}}
}

// forget drops all that is known of an object but what it is now.
func (h *History) forget(ctx context.Context, objects *catalog.Raw, f *historyv1.Forgotten, dryRun bool) error {
	of := f.Spec
	if of.Resource == "" || of.Name == "" {
		return apierrors.NewBadRequest("spec: resource and name say whose history is to be deleted")
	}
	r := objects.Now().Resource(schema.GroupResource{Group: of.Group, Resource: of.Resource})
	if r == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("spec: there is no resource %q in group %q", of.Resource, of.Group))
	}
	ep, err := r.Endpoint(r.Storage)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if ep.View() == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("spec: %s are computed, and have no history", of.Resource))
	}
	if dryRun {
		return nil
	}
	key := of.Name
	if r.Namespaced {
		key = of.Namespace + "/" + of.Name
	}
	forget := h.Forget
	if h.replica != nil {
		forget = h.replica.Forget
	}
	if f.Status.Found, err = forget(ctx, ep.View().Below(key)); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}
