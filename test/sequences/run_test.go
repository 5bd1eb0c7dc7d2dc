package sequences

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// pair runs sequences on both servers.
type pair struct {
	ours, peers server
	mark        string // of all runs of this test
	runs        int
	steps       int // that were sent
}

// found are the differences of a step; step is -1 for what is stored at the end.
type found struct {
	number      int
	step        step
	differences []difference
}

var digits = regexp.MustCompile(`\[\d+\]`)

// signature is what found differences have in common that have one cause, mostly.
func (f *found) signature() string {
	if f == nil {
		return ""
	}
	d := f.differences[0]
	place := digits.ReplaceAllString(d.place, "[]")
	if d.place == "code" {
		place += " " + d.ours[:min(3, len(d.ours))] + "≠" + d.peers[:min(3, len(d.peers))]
	}
	what := f.step.Method
	if f.step.Watch {
		what = "WATCH"
	}
	return fmt.Sprint(what, " ", f.step.resource(), " ", strings.TrimPrefix(f.step.Sent, "application/"), " ", place)
}

// awaited are resources whose writes change what other requests may do.
var awaited = []string{"namespaces", "limitranges", "resourcequotas", "priorityclasses", "storageclasses", "runtimeclasses", "customresourcedefinitions",
	"roles", "rolebindings", "clusterroles", "clusterrolebindings"}

// pace is how long a run waits for kube-apiserver's informers.
type pace int

const (
	hurried pace = iota
	slow
	patient // enough for a machine with many other things to do
)

// pause is the time that kube-apiserver's informers get after a write that admission reads, and in runs that do not hurry after all others too.
func pause(st step, got answer, p pace) time.Duration {
	d := time.Duration(0)
	r, _, _ := strings.Cut(st.resource(), "/")
	if st.Method != "GET" && st.Until == nil && got.code < 300 && slices.Contains(awaited, r) {
		d = 60 * time.Millisecond
	}
	if st.Watch {
		d = 20 * time.Millisecond
	}
	switch p {
	case slow:
		d = 3*d + 30*time.Millisecond
	case patient:
		d = 20*d + 500*time.Millisecond
	}
	return d
}

// run sends a sequence to both servers and returns the first step with differences.
func (p *pair) run(ctx context.Context, steps []step, at pace) (*found, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.runs++
	run := fmt.Sprintf("%s%d", p.mark, p.runs)
	ours, peers := &side{server: p.ours, run: run, seen: map[string][]metadata{}}, &side{server: p.peers, run: run, seen: map[string][]metadata{}}
	defer func() {
		_ = both(ours, peers, func(s *side) error { return s.clean(context.WithoutCancel(ctx), steps) })
	}()
	if err := both(ours, peers, func(s *side) error { return s.prepare(ctx) }); err != nil {
		return nil, err
	}
	time.Sleep(pause(step{Method: "POST", Path: "/api/v1/namespaces"}, answer{}, at))
	n := newNames()
	ask := func(st step, before []step) ([]difference, answer, error) {
		p.steps++
		var answers [2]answer
		err := both(ours, peers, func(s *side) (err error) {
			i := 0
			if s == peers {
				i = 1
			}
			answers[i], err = s.do(ctx, st)
			return err
		})
		if err != nil {
			return nil, answer{}, fmt.Errorf("%s: %w", st, err)
		}
		d := settled(n.answers(answers[0], answers[1]), st, before)
		mine, theirs := p.ours.hooks.take(), p.peers.hooks.take()
		switch collection, name := divide(strings.Split(st.Path, "?")[0]); {
		case st.Method != "DELETE":
		case name == "" && collection != "":
			mine, theirs = nil, nil // kube-apiserver deletes several objects at a time, until one is refused
		case st.resource() == "pods":
			theirs = firsts(theirs) // it asks for the mark of a pod that is deleted at once, and once or twice more for its removal
		}
		reviews := n.values("reviews", mine, theirs)
		return allowed(st, append(d, reviews...)), answers[1], nil
	}
	for i, st := range steps {
		if strings.Contains(st.Path, "resourceVersion=0") {
			time.Sleep(pause(step{Watch: true}, answer{}, at)) // kube-apiserver answers with what its cache has
		}
		d, got, err := ask(st, steps[:i])
		if err != nil || len(d) > 0 {
			return &found{i, st, d}, err
		}
		time.Sleep(pause(st, got, at))
	}
	if f := events(n, steps, ours, peers); f != nil {
		return f, nil
	}
	for _, path := range touched(steps) {
		if d, _, err := ask(step{Method: "GET", Path: path}, steps); err != nil || len(d) > 0 {
			return &found{-1, step{Method: "GET", Path: path}, d}, err
		}
	}
	return nil, nil
}

// both does something with both servers at a time.
func both(a, b *side, do func(*side) error) error {
	var wg sync.WaitGroup
	var theirs error
	wg.Go(func() { theirs = do(b) })
	err := do(a)
	wg.Wait()
	if err == nil {
		err = theirs
	}
	return err
}

// prepare makes the namespace of a run and the account of its pods.
func (s *side) prepare(ctx context.Context) error {
	for path, body := range map[string]string{
		"/api/v1/namespaces": `{"metadata":{"name":"$R"}}`, "/api/v1/namespaces/$R/serviceaccounts": `{"metadata":{"name":"default"}}`} {
		for range 2 { // the first may be the account
			if got, err := s.do(ctx, step{Method: "POST", Path: path, Body: body}); err != nil {
				return err
			} else if got.code == http.StatusCreated {
				break
			}
			_, _ = s.do(ctx, step{Method: "POST", Path: "/api/v1/namespaces", Body: `{"metadata":{"name":"$R"}}`})
		}
	}
	s.seen = map[string][]metadata{}
	return nil
}

// settled are differences without the revisions of custom resources whose definition is being deleted: the server deletes them, in their turn after
// some seconds, and that is a write where a default has come since.
func settled(all []difference, st step, before []step) []difference {
	if !strings.Contains(st.Path, "/apis/$R.example.test/") || !slices.ContainsFunc(before, func(st step) bool {
		return st.Method == "DELETE" && strings.Contains(st.Path, "/customresourcedefinitions/") && !strings.Contains(st.Path, "dryRun")
	}) {
		return all
	}
	return slices.DeleteFunc(all, func(d difference) bool { return strings.HasSuffix(d.place, ".metadata.resourceVersion") })
}

// touched are the paths of objects and collections that steps have written.
func touched(steps []step) []string {
	var out []string
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, st := range steps {
		if st.Method == "GET" {
			continue
		}
		path, _, _ := strings.Cut(st.Path, "?")
		collection, name := divide(path)
		if strings.Contains(path, "/namespaces/$R/") {
			add(collection)
		} else {
			add(collection + "?labelSelector=run%3D$R")
		}
		if name != "" {
			add(collection + "/" + name)
		}
	}
	return out
}

// divide cuts a path of a step after the collection.
func divide(path string) (collection, name string) {
	parts := strings.Split(path, "/")
	n := 5 // "", apis, group, version, plural
	if parts[1] == "api" {
		n = 4
	}
	if len(parts) > n && parts[n-1] == "namespaces" && parts[n] == "$R" {
		n += 2
	}
	if len(parts) > n {
		name = parts[n]
	}
	return strings.Join(parts[:min(n, len(parts))], "/"), name
}

// clean removes what would be in the way of other runs: objects without a namespace, and services with their addresses.
func (s *side) clean(ctx context.Context, steps []step) error {
	for _, path := range touched(steps) {
		path, _, _ := strings.Cut(path, "?")
		collection, name := divide(path)
		inNamespace := strings.Contains(path, "/namespaces/$R/")
		switch {
		case inNamespace && name != "" && strings.Contains(collection, "$R.example.test"): // the definition waits for it
			if _, err := s.do(ctx, step{Method: "PATCH", Path: path, Sent: "application/merge-patch+json", Body: `{"metadata":{"finalizers":null}}`}); err != nil {
				return err
			}
		case inNamespace && name == "" && strings.HasSuffix(collection, "/services"):
			if _, err := s.do(ctx, step{Method: "PATCH", Path: collection + "/a", Sent: "application/merge-patch+json", Body: `{"metadata":{"finalizers":null}}`}); err != nil {
				return err
			}
			if _, err := s.do(ctx, step{Method: "PATCH", Path: collection + "/b", Sent: "application/merge-patch+json", Body: `{"metadata":{"finalizers":null}}`}); err != nil {
				return err
			}
			if _, err := s.do(ctx, step{Method: "DELETE", Path: collection}); err != nil {
				return err
			}
		case !inNamespace && name == "" && !strings.HasSuffix(collection, "/namespaces"): // those with generated names
			if _, err := s.do(ctx, step{Method: "DELETE", Path: collection + "?labelSelector=run%3D$R"}); err != nil {
				return err
			}
		case !inNamespace && name != "":
			if _, err := s.do(ctx, step{Method: "DELETE", Path: path + "?gracePeriodSeconds=0"}); err != nil {
				return err
			}
			if _, err := s.do(ctx, step{Method: "PATCH", Path: path, Sent: "application/merge-patch+json", Body: `{"metadata":{"finalizers":null}}`}); err != nil {
				return err
			}
		}
	}
	return nil
}

// events compares those of the watches, once they are the same or nothing comes any more.
func events(n *names, steps []step, ours, peers *side) *found {
	i := 0
	for number, st := range steps {
		if !st.Watch {
			continue
		}
		a, b := ours.watches[i], peers.watches[i]
		i++
		if a.first.code != http.StatusOK {
			continue // it was compared
		}
		var x, y []any
		for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			x, y = told(a), told(b)
			if len(x) == len(y) || time.Now().After(deadline) {
				break
			}
		}
		a.cancel()
		b.cancel()
		if expired(y) && !expired(x) {
			continue // kube-apiserver forgets the history of a kind whose definition has changed
		}
		if strings.Contains(st.Path, "$R.example.test") && (slices.Contains(x, any("ended")) || slices.Contains(y, any("ended"))) {
			x, y = common(x, y) // a change of the definition ends its watches, on one server sooner than on the other
		}
		d := settled(n.values("", x, y), st, steps)
		if len(x) != len(y) {
			d = []difference{{"events", summary(x), summary(y)}}
		}
		if d = allowed(st, d); len(d) > 0 {
			return &found{number, st, d}
		}
	}
	return nil
}

// common are the events of each object that both have got before one of the watches ended.
func common(x, y []any) ([]any, []any) {
	first := func(events, of []any) []any {
		seen := map[string]int{}
		for _, e := range of {
			seen[subject(e)]++
		}
		return slices.DeleteFunc(slices.Clone(events), func(e any) bool {
			seen[subject(e)]--
			return e == "ended" || seen[subject(e)] < 0
		})
	}
	return first(x, y), first(y, x)
}

// expired says that a watch got nothing but that its revision is too old.
func expired(events []any) bool {
	return len(events) > 0 && at(events[0], "/object/reason") == "Expired"
}

// summary is the types and objects of events.
func summary(events []any) string {
	var out []string
	for _, e := range events {
		m, _ := e.(map[string]any)
		out = append(out, fmt.Sprint(m["type"], " ", subject(e)))
	}
	return strings.Join(out, ", ")
}

// told are a watch's events without bookmarks, which come when servers like, but the one after the initial events.
func told(w *watch) []any {
	events, ended := w.state()
	var out []any
	for _, e := range events {
		e := clone(e)
		m, _ := e.(map[string]any)
		o, _ := m["object"].(map[string]any)
		meta, _ := o["metadata"].(map[string]any)
		if m["type"] == "BOOKMARK" {
			if meta["annotations"] == nil {
				continue
			}
			m["object"] = map[string]any{"kind": o["kind"], "annotations": meta["annotations"]}
		}
		if o["kind"] == "Table" {
			delete(meta, "resourceVersion")
		}
		out = append(out, e)
	}
	// A collection is deleted in any order: the events of each object are compared by themselves.
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(subject(a), subject(b)) })
	out = slices.Collect(func(yield func(any) bool) {
		for i, e := range out {
			if !(i+1 < len(out) && endsNow(e, out[i+1])) && !yield(e) {
				return
			}
		}
	})
	if ended {
		out = append(out, "ended")
	}
	return out
}

// endsNow says that an event is the mark of a deletion that the next event completes: kanzen makes both in one write.
func endsNow(event, next any) bool {
	m, _ := event.(map[string]any)
	n, _ := next.(map[string]any)
	meta := metaOf(event)
	return m["type"] == "MODIFIED" && n["type"] == "DELETED" && subject(event) == subject(next) && meta["deletionGracePeriodSeconds"] == 0.0 && meta["finalizers"] == nil
}

// metaOf is the metadata of an event's object, which may be in a table.
func metaOf(event any) map[string]any {
	m, _ := event.(map[string]any)
	o, _ := m["object"].(map[string]any)
	if rows, _ := o["rows"].([]any); len(rows) == 1 {
		row, _ := rows[0].(map[string]any)
		o, _ = row["object"].(map[string]any)
	}
	meta, _ := o["metadata"].(map[string]any)
	return meta
}

// subject is the name of an event's object, with what differs from server to server made the same.
func subject(event any) string {
	name, _ := metaOf(event)["name"].(string)
	return chosen.ReplaceAllStringFunc(name, func(s string) string { return strings.TrimRight(s, "bcdfghjklmnpqrstvwxz2456789") })
}

// patience is how long a sequence is shortened: one that a person can read is enough.
const patience = 40 * time.Second

// shrink drops steps and edits as long as the difference stays.
func (p *pair) shrink(ctx context.Context, steps []step, f *found) ([]step, *found, error) {
	if f.number >= 0 && !f.step.Watch {
		steps = steps[:f.number+1]
	}
	until := time.Now().Add(patience)
	try := func(fewer []step) bool {
		if time.Now().After(until) {
			return false
		}
		got, err := p.run(ctx, fewer, slow)
		if err != nil || got.signature() != f.signature() {
			return false
		}
		steps, f = fewer, got
		return true
	}
	for size := max(1, len(steps)/4); size > 0; size /= 2 {
		for at := len(steps) - size; at >= 0; at -= size {
			if at = min(at, len(steps)-size); at < 0 {
				break
			}
			// Without its marker a policy would be there sooner on one server than on the other.
			markers := slices.DeleteFunc(slices.Clone(steps[at:at+size]), func(st step) bool { return !strings.Contains(st.Path, "/$R-marker?") })
			if len(markers) < size {
				try(slices.Concat(steps[:at], markers, steps[at+size:]))
			}
		}
	}
	for i := 0; i < len(steps); i++ {
		for j := len(steps[i].Edits) - 1; j >= 0; j-- {
			fewer := clone(steps)
			fewer[i].Edits = slices.Delete(fewer[i].Edits, j, j+1)
			try(fewer)
		}
	}
	return steps, f, ctx.Err()
}
