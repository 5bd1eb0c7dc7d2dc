package recorder

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// This file has the resources that tell what the server does and has now: its traffic, and the state of its parts.

// Parts tell the state of other parts of the server.
type Parts struct {
	Views          func() []*v1alpha1.View
	Controllers    func() []*v1alpha1.Controller
	Datastores     func(ctx context.Context) []*v1alpha1.Datastore
	PriorityLevels func() []*v1alpha1.PriorityLevel
	Definitions    func() []*v1alpha1.Definition
	// Planes are those below this server; nil: it has none (--planes).
	Planes func() []*v1alpha1.PlaneStat
	// PlaneServers are the servers that share these planes; nil if Planes is.
	PlaneServers func() []*v1alpha1.PlaneServer
}

func (r *Recorder) statResources(p Parts) []*engine.Resource {
	all := []*engine.Resource{r.trafficStats(), r.timeSeries(), r.views(p), r.controllers(p), r.datastores(p), r.priorityLevels(p), r.definitions(p)}
	if p.Planes != nil {
		all = append(all, r.planeStats(p), r.planeServers(p))
	}
	return all
}

// whole returns what all readers of a list get: copies of the same objects, since each gets metadata of its own.
func whole[T engine.Object](r *Recorder, all func(ctx context.Context) []T) func(ctx context.Context) []T {
	k := &kept[[]T]{clock: r.Clock}
	return func(ctx context.Context) []T {
		same := k.get(func() []T { return all(ctx) })
		out := make([]T, len(same))
		for n, obj := range same {
			out[n] = obj.DeepCopyObject().(T)
		}
		return out
	}
}

func without[T any](f func() []T) func(context.Context) []T {
	return func(context.Context) []T { return f() }
}

func (r *Recorder) trafficStats() *engine.Resource {
	res := readOnly("trafficstats", "trafficstat", "TrafficStat", engine.VersionOf[v1alpha1.TrafficStat, v1alpha1.TrafficStatList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, without(r.Traffic)), func(t *v1alpha1.TrafficStat) string { return version(t.PerSecond, t.P50, t.P99) })
	res.Fields = engine.Fields(func(t *v1alpha1.TrafficStat) fields.Set {
		return fields.Set{"by": t.By, "verb": t.Verb, "group": t.Group, "resource": t.Resource, "client": t.Client, "user": t.User}
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("By", "string", "What requests are counted by.", 0), column("Of", "string", "Which of these.", 0),
			column("Per Second", "number", "Requests.", 0), column("P50", "string", "Half of them were faster.", 0), column("P99", "string", "Nearly all were.", 0),
			column("Refused", "number", "Refused ones, per second.", 0), column("Failed", "number", "Those that failed, per second.", 0)},
		Row: engine.Row(func(t *v1alpha1.TrafficStat) []any {
			resource := t.Resource
			if t.Group != "" {
				resource += "." + t.Group
			}
			of := strings.Join(strings.Fields(strings.Join([]string{t.Verb, t.Client, t.User, t.Layer, resource, t.Webhook}, " ")), " ")
			return []any{t.Name, t.By, of, number(t.PerSecond), round(t.P50.Duration), round(t.P99.Duration), number(t.RefusedPerSecond), number(t.FailedPerSecond)}
		}),
	}
	return res
}

func (r *Recorder) timeSeries() *engine.Resource {
	res := readOnly("timeseries", "timeseries", "TimeSeries", engine.VersionOf[v1alpha1.TimeSeries, v1alpha1.TimeSeriesList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, without(r.TimeSeries)), func(s *v1alpha1.TimeSeries) string { return version(s.Name, s.End.Unix()) })
	res.Fields = engine.Fields(func(s *v1alpha1.TimeSeries) fields.Set { return fields.Set{"of": seriesOf(s.Name)} })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Unit", "string", "Of the values.", 0), column("Now", "number", "The newest value.", 0),
			column("Mean", "number", "Of all values.", 0), column("Max", "number", "The largest one.", 0), column("Values", "integer", "How many there are.", 0)},
		Row: engine.Row(func(s *v1alpha1.TimeSeries) []any {
			var now, sum, most float32
			for _, v := range s.Values {
				now, sum, most = v, sum+v, max(most, v)
			}
			return []any{s.Name, s.Unit, now, rounded(float64(sum) / float64(max(len(s.Values), 1))), most, len(s.Values)}
		}),
	}
	return res
}

// costliest says whether something of a rank is among those that are looked at first: of thousands, a page shows few.
func costliest(rank int64) string { return strconv.FormatBool(rank <= 100) }

func number(f float64) string { return fmt.Sprintf("%.2f", f) }

// version makes a resourceVersion of what changes.
func version(parts ...any) string {
	h := uint64(14695981039346656037)
	for _, c := range fmt.Sprint(parts...) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return strconv.FormatUint(h>>1|1, 10)
}

func (r *Recorder) views(p Parts) *engine.Resource {
	res := readOnly("views", "view", "View", engine.VersionOf[v1alpha1.View, v1alpha1.ViewList](v1alpha1.GroupVersion(), nil))
	listed(r, res, without(p.Views), func(v *v1alpha1.View) string { return version(v.Events, v.Objects, v.Bytes, v.Watchers, v.Loaded) })
	res.Fields = engine.Fields(func(v *v1alpha1.View) fields.Set {
		return fields.Set{"group": v.Group, "resource": v.Resource, "costliest": costliest(v.Rank)}
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Loaded", "boolean", "Whether its objects are in memory.", 0), column("Objects", "integer", "How many there are.", 0),
			column("Bytes", "integer", "Of the stored objects.", 0), column("Watchers", "integer", "Who follows it.", 0), column("Events", "integer", "Changes since the server started.", 0),
			column("Window", "integer", "Events that are kept for watches from the past.", 1)},
		Row: engine.Row(func(v *v1alpha1.View) []any {
			return []any{v.Name, v.Loaded, v.Objects, v.Bytes, v.Watchers, v.Events, v.Window}
		}),
	}
	return res
}

func (r *Recorder) controllers(p Parts) *engine.Resource {
	res := readOnly("controllers", "controller", "Controller", engine.VersionOf[v1alpha1.Controller, v1alpha1.ControllerList](v1alpha1.GroupVersion(), nil))
	listed(r, res, without(p.Controllers), func(c *v1alpha1.Controller) string { return version(c.Added, c.Waiting, c.Working, c.Retries) })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Waiting", "integer", "Names in the queue.", 0), column("Working", "integer", "Names that are worked on.", 0),
			column("Added", "integer", "Names since the server started.", 0), column("Retries", "integer", "Those that failed before.", 0), column("Wait", "string", "In the queue, on average.", 0),
			column("Work", "string", "On a name, on average.", 0), column("Longest", "string", "The oldest work under way.", 0)},
		Row: engine.Row(func(c *v1alpha1.Controller) []any {
			return []any{c.Name, c.Waiting, c.Working, c.Added, c.Retries, round(c.MeanWait.Duration), round(c.MeanWork.Duration), round(c.Longest.Duration)}
		}),
	}
	return res
}

func (r *Recorder) datastores(p Parts) *engine.Resource {
	res := readOnly("datastores", "datastore", "Datastore", engine.VersionOf[v1alpha1.Datastore, v1alpha1.DatastoreList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, p.Datastores), func(d *v1alpha1.Datastore) string { return version(d.Revision, d.Bytes, d.InUse, d.Error) })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Latency", "string", "Of one question.", 0), column("Bytes", "integer", "Of its file.", 0),
			column("In Use", "integer", "What would be left after a defragmentation.", 0), column("Quota", "integer", "What it may have; 0 is unknown.", 0),
			column("Revision", "integer", "The newest.", 0), column("Compacted", "integer", "The oldest that can be read.", 0), column("Error", "string", "Why it does not answer.", 0)},
		Row: engine.Row(func(d *v1alpha1.Datastore) []any {
			return []any{d.Name, round(d.Latency.Duration), d.Bytes, d.InUse, d.Quota, d.Revision, d.Compacted, d.Error}
		}),
	}
	return res
}

func (r *Recorder) priorityLevels(p Parts) *engine.Resource {
	res := readOnly("prioritylevels", "prioritylevel", "PriorityLevel", engine.VersionOf[v1alpha1.PriorityLevel, v1alpha1.PriorityLevelList](v1alpha1.GroupVersion(), nil))
	listed(r, res, without(p.PriorityLevels), func(l *v1alpha1.PriorityLevel) string {
		return version(l.Dispatched, l.Rejected, l.TimedOut, l.SeatsInUse, l.Waiting, l.Seats)
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Seats", "integer", "That it has now.", 0), column("In Use", "integer", "Of them.", 0),
			column("Executing", "integer", "Requests that are served.", 0), column("Waiting", "integer", "Requests in its queues.", 0), column("Queues", "integer", "That it has.", 0),
			column("Rejected", "integer", "Requests since the server started.", 0), column("Timed Out", "integer", "Requests that waited too long.", 0), column("Nominal", "integer", "Seats of its own.", 1)},
		Row: engine.Row(func(l *v1alpha1.PriorityLevel) []any {
			return []any{l.Name, l.Seats, l.SeatsInUse, l.Executing, l.Waiting, l.Queues, l.Rejected, l.TimedOut, l.Nominal}
		}),
	}
	return res
}

func (r *Recorder) definitions(p Parts) *engine.Resource {
	res := readOnly("definitions", "definition", "Definition", engine.VersionOf[v1alpha1.Definition, v1alpha1.DefinitionList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, without(p.Definitions)), func(d *v1alpha1.Definition) string {
		return version(d.DefinitionBytes, d.Compiled, d.Checks, d.Objects, d.Bytes, d.Watchers, d.Established)
	})
	res.Fields = engine.Fields(func(d *v1alpha1.Definition) fields.Set {
		return fields.Set{"group": d.Group, "costliest": costliest(d.Rank)}
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Objects", "integer", "Of it in memory.", 0), column("Bytes", "integer", "Of these.", 0),
			column("Watchers", "integer", "Who follows them.", 0), column("Definition", "integer", "Bytes of the definition.", 0), column("Compiled", "string", "Versions whose schema was needed.", 0),
			column("Compilation", "string", "Of these.", 1), column("Checks", "integer", "Objects validated since the definition last changed.", 1), column("Check", "string", "Of an object, on average.", 0),
			column("Established", "boolean", "Whether it is served.", 0)},
		Row: engine.Row(func(d *v1alpha1.Definition) []any {
			return []any{d.Name, d.Objects, d.Bytes, d.Watchers, d.DefinitionBytes, strings.Join(d.Compiled, ","), round(d.CompileTime.Duration), d.Checks, round(d.MeanCheck()), d.Established}
		}),
	}
	return res
}

func (r *Recorder) planeStats(p Parts) *engine.Resource {
	res := readOnly("planestats", "planestat", "PlaneStat", engine.VersionOf[v1alpha1.PlaneStat, v1alpha1.PlaneStatList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, without(p.Planes)), func(s *v1alpha1.PlaneStat) string {
		return version(s.State, s.Server, s.Moves, s.Requests, s.Refused, s.Wakes, s.Watches, s.SeatsInUse, s.Waiting, s.Objects, s.Bytes)
	})
	res.Fields = engine.Fields(func(s *v1alpha1.PlaneStat) fields.Set {
		return fields.Set{"state": s.State, "server": s.Server, "costliest": costliest(s.Rank)}
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("State", "string", "Asleep or Awake.", 0), column("Server", "string", "On which it is awake.", 0), column("Requests", "integer", "Since the server started.", 0),
			column("Refused", "integer", "Since the server started, by its limits or because it was overloaded.", 0), column("Watches", "integer", "Now.", 0),
			column("In Use", "integer", "Of its seats.", 0), column("Waiting", "integer", "Requests that wait for a seat.", 0), column("Objects", "integer", "Of its own.", 0),
			column("Bytes", "integer", "Of these.", 0), column("Wakes", "integer", "Since the server started.", 1), column("Moves", "integer", "From one server to another, in the last hour.", 1)},
		Row: engine.Row(func(s *v1alpha1.PlaneStat) []any {
			return []any{s.Name, s.State, s.Server, s.Requests, s.Refused, s.Watches, s.SeatsInUse, s.Waiting, s.Objects, s.Bytes, s.Wakes, s.Moves}
		}),
	}
	return res
}

func (r *Recorder) planeServers(p Parts) *engine.Resource {
	res := readOnly("planeservers", "planeserver", "PlaneServer", engine.VersionOf[v1alpha1.PlaneServer, v1alpha1.PlaneServerList](v1alpha1.GroupVersion(), nil))
	listed(r, res, whole(r, without(p.PlaneServers)), func(s *v1alpha1.PlaneServer) string {
		return version(s.State, s.Error, s.Started, s.Awake, s.Named, s.Requests, s.Refused, s.Watches, s.Passed, s.PassedFailed, s.Memory, s.Moved, s.TakenOver)
	})
	res.Fields = engine.Fields(func(s *v1alpha1.PlaneServer) fields.Set { return fields.Set{"state": s.State} })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("State", "string", "Running, Leaving, Unreachable or Away.", 0), column("Awake", "integer", "Planes that are awake on it.", 0),
			column("Requests", "integer", "That its planes got since it started.", 0), column("Passed", "integer", "Requests that it has passed on since it started.", 0), column("Failed", "integer", "Of those that were passed on.", 0),
			column("Moved", "integer", "Planes that came to it in the last hour.", 0), column("Taken Over", "integer", "Planes that it took in the last hour from servers that were gone.", 0),
			column("Memory", "integer", "Bytes, of its process.", 0), column("Up", "string", "Since it started.", 0), column("Away", "string", "Since nothing was heard of it.", 0),
			column("Host", "string", "Its machine.", 1), column("Version", "string", "Of the server.", 1), column("Error", "string", "Why its figures are missing.", 1)},
		Row: engine.Row(func(s *v1alpha1.PlaneServer) []any {
			ago := func(at *metav1.Time) string {
				if at == nil {
					return ""
				}
				return duration.HumanDuration(r.Clock.Since(at.Time))
			}
			return []any{s.Name, s.State, s.Awake, s.Requests, s.Passed, s.PassedFailed, s.Moved, s.TakenOver, s.Memory, ago(s.Started), ago(s.Since), s.Host, s.Version, s.Error}
		}),
	}
	return res
}
