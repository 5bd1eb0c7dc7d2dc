// Package parts tells the readers of the flight recorder the state of the server's parts, and why a user may or may not do
// something.
package parts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/crd"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/observe/recorder"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/store"
)

// datastoreTimeout bounds what an etcd is asked.
const datastoreTimeout = 3 * time.Second

// Of returns what tells the state of parts. flow nil: requests are only counted.
func Of(stored *store.Cluster, queues *queue.Metrics, custom *crd.Server, flow *flowcontrol.Controller) recorder.Parts {
	return recorder.Parts{
		Views: func() []*v1alpha1.View {
			all := stored.Views()
			slices.SortFunc(all, func(a, b store.ViewState) int {
				return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Resource.String(), b.Resource.String()))
			})
			return each(all, shownView, func(v *v1alpha1.View, rank int64) { v.Rank = rank })
		},
		Controllers: func() []*v1alpha1.Controller {
			all := queues.States()
			out := make([]*v1alpha1.Controller, 0, len(all))
			for _, s := range all {
				c := &v1alpha1.Controller{Waiting: s.Waiting, Working: s.Working, Added: s.Added, Retries: s.Retries,
					MeanWait: metav1.Duration{Duration: s.MeanWait}, MeanWork: metav1.Duration{Duration: s.MeanWork}, Longest: metav1.Duration{Duration: s.LongestActive}}
				c.Name = s.Name
				out = append(out, c)
			}
			slices.SortFunc(out, func(a, b *v1alpha1.Controller) int { return cmp.Compare(a.Name, b.Name) })
			return out
		},
		Datastores: func(ctx context.Context) []*v1alpha1.Datastore {
			var out []*v1alpha1.Datastore
			for n, s := range stored.All() {
				d := datastoreOf(ctx, s)
				d.Name = fmt.Sprintf("etcd-%d", n)
				out = append(out, d)
			}
			return out
		},
		PriorityLevels: func() []*v1alpha1.PriorityLevel {
			if flow == nil {
				return nil
			}
			return each(flow.Levels(), shownLevel, nil)
		},
		Definitions: func() []*v1alpha1.Definition {
			all := custom.States()
			slices.SortStableFunc(all, func(a, b crd.State) int {
				return cmp.Or(cmp.Compare(b.View.Bytes, a.View.Bytes), cmp.Compare(b.Bytes, a.Bytes))
			})
			return each(all, shownDefinition, func(d *v1alpha1.Definition, rank int64) { d.Rank = rank })
		},
	}
}

// each returns f of everything; rank is told the place of each, from 1 on. It is optional.
func each[A, B any](all []A, f func(*A) B, rank func(B, int64)) []B {
	out := make([]B, len(all))
	for n := range all {
		if out[n] = f(&all[n]); rank != nil {
			rank(out[n], int64(n+1))
		}
	}
	return out
}

func shownView(s *store.ViewState) *v1alpha1.View {
	v := &v1alpha1.View{Group: s.Resource.Group, Resource: s.Resource.Resource, Loaded: s.Loaded, Objects: int64(s.Objects), Bytes: s.Bytes, Watchers: int64(s.Watchers),
		Window: int64(s.Window), Events: s.Events, Unreadable: s.Unknown, Revision: s.Revision}
	v.Name = s.Resource.String()
	return v
}

func shownLevel(s *flowcontrol.LevelState) *v1alpha1.PriorityLevel {
	l := &v1alpha1.PriorityLevel{Exempt: s.Exempt, Seats: int64(s.Seats), Nominal: int64(s.Nominal), SeatsInUse: int64(s.SeatsInUse), Executing: int64(s.Executing),
		Waiting: int64(s.Waiting), Queues: int64(s.Queues), ActiveQueues: int64(s.ActiveQueues), QueueLength: int64(s.QueueLength),
		Dispatched: int64(s.Dispatched), Rejected: int64(s.Rejected), TimedOut: int64(s.TimedOut)}
	l.Name = s.Name
	return l
}

func shownDefinition(s *crd.State) *v1alpha1.Definition {
	d := &v1alpha1.Definition{Group: s.Group, Resource: s.Resource, Versions: s.Versions, Established: s.Established, DefinitionBytes: int64(s.Bytes), Compiled: s.Compiled,
		CompileTime: metav1.Duration{Duration: s.Compiling}, Checks: s.Checks, CheckTime: metav1.Duration{Duration: s.Checking},
		Loaded: s.View.Loaded, Objects: int64(s.View.Objects), Bytes: s.View.Bytes, Watchers: int64(s.View.Watchers)}
	d.Name = s.Name
	return d
}

// datastoreOf asks an etcd. The answer is for all readers, so it does not end with one of them.
func datastoreOf(ctx context.Context, s *store.Store) *v1alpha1.Datastore {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), datastoreTimeout)
	defer cancel()
	d := &v1alpha1.Datastore{Seen: s.Revision()}
	began := time.Now()
	var err error
	if d.Revision, err = s.Head(ctx); err == nil {
		d.Latency.Duration = time.Since(began)
		d.Compacted, err = s.Compacted(ctx)
	}
	size, errSize := s.Size(ctx)
	d.Bytes, d.InUse, d.Quota = size.Bytes, size.InUse, size.Quota
	if err = cmp.Or(err, errSize); err != nil {
		d.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return d
}
