package recorder

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Deps is what the resources need from the rest of the server.
type Deps struct {
	// MayGet returns nil if the context's user may get an object.
	MayGet func(ctx context.Context, o v1alpha1.ObjectReference) error
	// Explain says why a user may or may not do something.
	Explain func(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (v1alpha1.AccessExplanationStatus, error)
	Parts   Parts
	// Findings returns what is wrong now, as far as it is told to a reader who may get some objects.
	Findings func(ctx context.Context, may func(v1alpha1.ObjectReference) bool) []*v1alpha1.Finding
	// Asked says whether a webhook (CONFIGURATION/WEBHOOK) or policy still exists.
	Asked func(ctx context.Context, kind, name, phase string) bool
}

// Resources returns the resources by which the recorder is read. They are served like all others: who may read them is a
// question of RBAC.
func (r *Recorder) Resources(d Deps) []*engine.Resource {
	return append([]*engine.Resource{r.requests(d), r.watchResource(), r.webhookStats(d), r.deprecatedUses(), r.objectHistories(d), r.accessExplanations(d), r.findings(d)},
		r.statResources(d.Parts)...)
}

func readOnly(plural, singular, kind string, v *engine.Version) *engine.Resource {
	return &engine.Resource{
		Plural: plural, Singular: singular, Kind: kind, Hub: v1alpha1.GroupVersion(), Versions: []*engine.Version{v}, Verbs: []string{"get", "list", "watch"},
	}
}

func column(name, kind, about string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: about, Priority: priority}
}

// nameColumn is the first column of every table.
func nameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "What the server calls it."}
}

func (r *Recorder) requests(d Deps) *engine.Resource {
	res := readOnly("requests", "request", "Request", engine.VersionOf[v1alpha1.Request, v1alpha1.RequestList](v1alpha1.GroupVersion(), nil))
	// Values are told of one request only, which its reader names: then few objects are to be asked for.
	res.Get = func(ctx context.Context, name string) (engine.Object, error) {
		records := r.Records()
		if number, err := strconv.ParseInt(strings.TrimPrefix(name, "r"), 10, 64); err == nil {
			n, found := slices.BinarySearchFunc(records, number, func(rec *v1alpha1.Record, number int64) int { return cmp.Compare(rec.Number, number) })
			if found && requestName(records[n]) == name {
				return shownRequest(records[n], d.readerOf(ctx)), nil
			}
		}
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion().WithResource("requests").GroupResource(), name)
	}
	// The newest come first: there may be very many, and who looks wants to see what happened just now.
	res.List = func(_ context.Context, p engine.Page) (iter.Seq[engine.Object], error) {
		records := r.Records()
		if p.After != "" {
			before, err := strconv.ParseInt(strings.TrimPrefix(p.After, "r"), 10, 64)
			if err != nil {
				return nil, apierrors.NewBadRequest("invalid continue token: it names no request")
			}
			n, _ := slices.BinarySearchFunc(records, before, func(rec *v1alpha1.Record, number int64) int { return cmp.Compare(rec.Number, number) })
			records = records[:n]
		}
		var since time.Time // those before are not looked at: there may be very many
		if p.Selector != nil {
			if value, ok := p.Selector.RequiresExactMatch("since"); ok {
				since, _ = moment(value, r.Clock.Now()) // it was checked
			}
		}
		return func(yield func(engine.Object) bool) {
			for _, rec := range slices.Backward(records) {
				if ended(rec).Add(disorder).Before(since) {
					return
				}
				if !yield(shownRequest(rec, anybody())) {
					return
				}
			}
		}, nil
	}
	res.Revision = func() string { return strconv.FormatInt(r.number.Load(), 10) }
	res.Watch = r.watchRequests
	res.Fields = engine.Fields(func(q *v1alpha1.Request) fields.Set {
		return fields.Set{"user": q.User, "as": cmp.Or(q.Impersonated, q.User), "verb": q.Verb, "resource": q.Resource, "group": q.Group, "namespace": q.Record.Namespace, "name": q.Record.Name,
			"code": strconv.Itoa(int(q.Code)), "kept": q.Kept, "slow": strconv.FormatBool(q.Slow), "userAgent": q.UserAgent, "console": strconv.FormatBool(q.Console)}
	})
	res.Terms = r.requestTerms()
	// A write or an error that was slow is kept for being that. Who asks for slow requests means all of them.
	res.FieldAliases = map[string]string{"kept=" + v1alpha1.KeptSlow: "slow=true"}
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Time", "string", "When it arrived.", 0), column("Took", "string", "How long it took.", 0),
			column("Code", "integer", "The status of the answer.", 0), column("Verb", "string", "What was asked.", 0), column("Object", "string", "Of what.", 0),
			column("User", "string", "Who asked.", 0), column("Slowest", "string", "Where most of the time went.", 0),
			column("Kept", "string", "Why it was kept.", 1), column("Client", "string", "The program.", 1), column("From", "string", "The address.", 1)},
		Row: engine.Row(func(q *v1alpha1.Request) []any {
			return []any{q.ObjectMeta.Name, q.Time.UTC().Format("15:04:05.000"), round(q.Duration.Duration), int64(q.Code), q.Verb, ObjectOf(&q.Record), who(q.User, q.Impersonated),
				Slowest(&q.Record), q.Kept, q.UserAgent, q.SourceIP}
		}),
	}
	return res
}

func requestName(rec *v1alpha1.Record) string { return "r" + strconv.FormatInt(rec.Number, 10) }

func shownRequest(rec *v1alpha1.Record, to reader) *v1alpha1.Request {
	q := &v1alpha1.Request{Record: told(rec, to)}
	q.ObjectMeta.Name, q.ResourceVersion = requestName(rec), strconv.FormatInt(rec.Number, 10)
	q.CreationTimestamp = metav1.NewTime(rec.Time.Time)
	return q
}

// followEvery is how often a watch looks for what is new.
const followEvery = 250 * time.Millisecond

// watchRequests sends the requests after a number. Those that end at the same time may come in another order.
func (r *Recorder) watchRequests(ctx context.Context, after string, send func(watch.EventType, ...engine.Object) error) error {
	var from int64
	if after != "" {
		var err error
		if from, err = strconv.ParseInt(after, 10, 64); err != nil {
			return apierrors.NewBadRequest("the resourceVersion is no number")
		}
	}
	ticker := r.Clock.NewTicker(followEvery)
	defer ticker.Stop()
	var c Cursor
	for {
		var objs []engine.Object
		for _, rec := range r.Since(&c) {
			if rec.Number > from {
				objs = append(objs, shownRequest(rec, anybody()))
			}
		}
		from = 0 // the cursor knows
		if len(objs) > 0 {
			if err := send(watch.Added, objs...); err != nil {
				return err
			}
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// ObjectOf names what a request is about, as people write it.
func ObjectOf(rec *v1alpha1.Record) string {
	if rec.Resource == "" {
		return rec.Path
	}
	s := rec.Resource
	if rec.Group != "" {
		s += "." + rec.Group
	}
	if rec.Namespace != "" && rec.Resource != "namespaces" {
		s += " " + rec.Namespace + "/" + rec.Name
	} else if rec.Name != "" {
		s += " " + rec.Name
	}
	if rec.Subresource != "" {
		s += " (" + rec.Subresource + ")"
	}
	return s
}

// Slowest names the step or layer in which a request spent most of its time.
func Slowest(rec *v1alpha1.Record) string {
	name, most := "", time.Duration(0)
	for _, l := range rec.Layers {
		if l.Duration.Duration > most && !strings.HasSuffix(l.Name, "-webhook") {
			name, most = l.Name, l.Duration.Duration
		}
	}
	for n := range rec.Steps {
		s := &rec.Steps[n]
		if s.Duration.Duration > most && !strings.HasSuffix(s.Name, "AdmissionWebhook") && !strings.HasSuffix(s.Name, "AdmissionPolicy") {
			name, most = s.Name, s.Duration.Duration
		}
	}
	if name == "" {
		return ""
	}
	return name + " " + round(most)
}

func who(user, as string) string {
	if as != "" {
		return as + " (by " + user + ")"
	}
	return user
}

func round(d time.Duration) string {
	switch {
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}

func (r *Recorder) watchResource() *engine.Resource {
	res := readOnly("watches", "watch", "Watch", engine.VersionOf[v1alpha1.Watch, v1alpha1.WatchList](v1alpha1.GroupVersion(), nil))
	listed(r, res, without(r.Watches), func(w *v1alpha1.Watch) string { return strconv.FormatInt(w.Events, 10) })
	res.Fields = engine.Fields(func(w *v1alpha1.Watch) fields.Set {
		return fields.Set{"user": w.User, "as": cmp.Or(w.Impersonated, w.User), "resource": w.Resource, "group": w.Group, "namespace": w.Namespace}
	})
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Resource", "string", "What is watched.", 0), column("Namespace", "string", "Where.", 0),
			column("Selector", "string", "Which of them.", 0), column("User", "string", "Who watches.", 0), column("Events", "integer", "What was sent.", 0),
			column("Bytes", "integer", "How much it was.", 0), column("Lag", "string", "For how long the client has not read what is being sent.", 0),
			column("Age", "string", "Since when it has been served.", 0), column("Client", "string", "The program.", 0), column("From", "string", "The address.", 1)},
		Row: engine.Row(func(w *v1alpha1.Watch) []any {
			resource := w.Resource
			if w.Group != "" {
				resource += "." + w.Group
			}
			return []any{w.ObjectMeta.Name, resource, w.Namespace, strings.Trim(w.LabelSelector+" "+w.FieldSelector, " "), who(w.User, w.Impersonated), w.Events, w.Bytes,
				round(w.Lag.Duration), duration.HumanDuration(r.Clock.Since(w.Began.Time)), Program(w.UserAgent), w.SourceIP}
		}),
	}
	return res
}

func (r *Recorder) webhookStats(d Deps) *engine.Resource {
	res := readOnly("webhookstats", "webhookstat", "WebhookStat", engine.VersionOf[v1alpha1.WebhookStat, v1alpha1.WebhookStatList](v1alpha1.GroupVersion(), nil))
	listed(r, res, func(ctx context.Context) []*v1alpha1.WebhookStat {
		r.stats.forget(func(k statKey) bool { return !d.Asked(ctx, k.kind, k.name, k.phase) })
		return r.Webhooks()
	}, func(s *v1alpha1.WebhookStat) string { return strconv.FormatInt(s.Calls, 10) })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Type", "string", "Webhook or policy.", 0), column("Calls", "integer", "How often it was asked.", 0),
			column("Per Minute", "number", "The same, now.", 0), column("P50", "string", "Half of the calls were faster.", 0), column("P99", "string", "Nearly all were.", 0),
			column("Max", "string", "The slowest call.", 0), column("Refused", "integer", "Writes that it refused.", 0), column("Failed", "integer", "Calls that failed.", 0),
			column("Timed Out", "integer", "Calls that took too long, among those that failed.", 0), column("Ignored", "integer", "Failures that did not count.", 1)},
		Row: engine.Row(func(s *v1alpha1.WebhookStat) []any {
			return []any{s.Name, s.Kind, s.Calls, fmt.Sprintf("%.1f", s.PerMinute), round(s.P50.Duration), round(s.P99.Duration), round(s.Max.Duration),
				s.Refused, s.Failed, s.TimedOut, s.Ignored}
		}),
	}
	return res
}

func (r *Recorder) deprecatedUses() *engine.Resource {
	res := readOnly("deprecateduses", "deprecateduse", "DeprecatedUse",
		engine.VersionOf[v1alpha1.DeprecatedUse, v1alpha1.DeprecatedUseList](v1alpha1.GroupVersion(), nil))
	listed(r, res, without(r.DeprecatedUses), func(u *v1alpha1.DeprecatedUse) string { return strconv.FormatInt(u.Requests, 10) })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Resource", "string", "What was asked for.", 0), column("Version", "string", "In which version.", 0),
			column("User", "string", "Who asked.", 0), column("Requests", "integer", "How often.", 0), column("Last", "string", "How long ago the last time was.", 0)},
		Row: engine.Row(func(u *v1alpha1.DeprecatedUse) []any {
			return []any{u.Name, u.Resource, metav1.GroupVersion{Group: u.Group, Version: u.Version}.String(), u.User, u.Requests, duration.HumanDuration(r.Clock.Since(u.Last.Time))}
		}),
	}
	return res
}

// pollEvery is how often a watch of something that has no log looks at it.
const pollEvery = time.Second

// listed makes a resource of a func that returns all objects. version returns what changes when an object does.
func listed[T engine.Object](r *Recorder, res *engine.Resource, all func(ctx context.Context) []T, version func(obj T) string) {
	list := func(ctx context.Context) []engine.Object {
		objs := all(ctx)
		out := make([]engine.Object, len(objs))
		for n, obj := range objs {
			obj.SetResourceVersion(version(obj))
			out[n] = obj
		}
		return out
	}
	res.List = func(ctx context.Context, p engine.Page) (iter.Seq[engine.Object], error) {
		return engine.Listed(list(ctx), p), nil
	}
	res.Get = func(ctx context.Context, name string) (engine.Object, error) {
		for _, obj := range list(ctx) {
			if obj.GetName() == name {
				return obj, nil
			}
		}
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion().WithResource(res.Plural).GroupResource(), name)
	}
	res.Revision = func() string { return "1" } // of a list that a watch goes on from
	res.Watch = func(ctx context.Context, after string, send func(watch.EventType, ...engine.Object) error) error {
		ticker := r.Clock.NewTicker(pollEvery)
		defer ticker.Stop()
		var known map[string]engine.Object
		for {
			now := map[string]engine.Object{}
			for _, obj := range list(ctx) {
				now[obj.GetName()] = obj
				was, event := known[obj.GetName()], watch.Added
				if known == nil && after != "" || was != nil && was.GetResourceVersion() == obj.GetResourceVersion() {
					continue
				}
				if was != nil {
					event = watch.Modified
				}
				if err := send(event, obj); err != nil {
					return err
				}
			}
			for name, obj := range known {
				if now[name] == nil {
					if err := send(watch.Deleted, obj); err != nil {
						return err
					}
				}
			}
			known = now
			select {
			case <-ticker.C():
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (r *Recorder) objectHistories(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "objecthistories", Singular: "objecthistory", Kind: "ObjectHistory", Hub: v1alpha1.GroupVersion(), Verbs: []string{"create"},
		Versions: []*engine.Version{engine.VersionOf[v1alpha1.ObjectHistory, v1alpha1.ObjectHistoryList](v1alpha1.GroupVersion(), nil)},
		Create: engine.Answer(func(ctx context.Context, in *v1alpha1.ObjectHistory) (*v1alpha1.ObjectHistory, error) {
			if in.Spec.Resource == "" || in.Spec.Name == "" {
				return nil, apierrors.NewBadRequest("spec.resource and spec.name must say which object is meant")
			}
			if in.Spec.Resource == "namespaces" && in.Spec.Group == "" {
				in.Spec.Namespace = in.Spec.Name
			}
			var err error
			in.Status, err = d.historyFor(ctx, r, in.Spec)
			return in, err
		}),
	}
}

// historyFor returns the history of an object for a reader who may get it. Who may not is told of the refusals that were his own.
func (d *Deps) historyFor(ctx context.Context, r *Recorder, o v1alpha1.ObjectReference) (s v1alpha1.ObjectHistoryStatus, err error) {
	to := d.readerOf(ctx)
	r.awaitLoaded(ctx)
	s.Entries, s.Forgotten = r.History(o)
	others := o
	others.Name = ""
	if err = d.MayGet(ctx, o); err == nil {
		s.Entries = slices.DeleteFunc(s.Entries, func(e v1alpha1.HistoryEntry) bool {
			return e.Unnamed && !to.was(e.User, e.Impersonated) && !to.may(others)
		})
		return s, nil
	}
	s.Forgotten = 0
	s.Entries = slices.DeleteFunc(s.Entries, func(e v1alpha1.HistoryEntry) bool { return !isRefusal(&e) || !to.was(e.User, e.Impersonated) })
	if len(s.Entries) > 0 {
		err = nil
	}
	return s, err
}

func (r *Recorder) accessExplanations(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "accessexplanations", Singular: "accessexplanation", Kind: "AccessExplanation", Hub: v1alpha1.GroupVersion(), Verbs: []string{"create"},
		Versions: []*engine.Version{engine.VersionOf[v1alpha1.AccessExplanation, v1alpha1.AccessExplanationList](v1alpha1.GroupVersion(), nil)},
		Create: engine.Answer(func(ctx context.Context, in *v1alpha1.AccessExplanation) (*v1alpha1.AccessExplanation, error) {
			s := &in.Spec
			if (s.ResourceAttributes == nil) == (s.NonResourceAttributes == nil) || s.User == "" && len(s.Groups) == 0 {
				return nil, apierrors.NewBadRequest("spec must have a user or groups, and either resourceAttributes or nonResourceAttributes")
			}
			asked, groups := *s, []string(nil)
			seen := r.people.of(s.User)
			if len(s.Groups) == 0 {
				if groups = seen; groups == nil {
					groups = StandardGroups(s.User)
				}
				asked.Groups = groups
			}
			status, err := d.Explain(ctx, &asked)
			in.Status = status
			in.Status.Groups, in.Status.Seen = groups, groups != nil && seen != nil
			return in, err
		}),
	}
}
