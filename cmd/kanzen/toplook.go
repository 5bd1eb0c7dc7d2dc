package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

const recorderPath = "/apis/flightrecorder.kanzen.io/v1alpha1/"

// follow sends the requests that the server keeps from now on.
func (t *top) follow(ctx context.Context, to chan<- *v1alpha1.Record) error {
	_, version, err := items[v1alpha1.Request](ctx, t.asker, recorderPath+"requests?limit=1&fieldSelector=verb%3Dnone")
	if err != nil {
		var refused *refusedError
		if errors.As(err, &refused) && refused.code == http.StatusNotFound {
			return errors.New(t.noRecorder())
		}
		return err
	}
	body, err := t.send(ctx, http.MethodGet, recorderPath+"requests?watch=1&resourceVersion="+url.QueryEscape(version), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	bound := &bounded{Reader: body}
	events := json.NewDecoder(bound)
	for {
		var e struct {
			Type   string
			Object v1alpha1.Request
		}
		bound.left = maxItem
		if err := events.Decode(&e); err != nil {
			return err
		}
		if e.Type != "ADDED" {
			return errors.New("the server ended the watch")
		}
		select {
		case to <- &e.Object.Record:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// state is what the server tells of itself, besides its requests.
type state struct {
	at       time.Time
	watches  []v1alpha1.Watch
	webhooks []v1alpha1.WebhookStat
	trouble  error // why these two are missing

	// What is slow to change is asked for less often, and is missing if the user may not read it.
	slow     time.Time
	findings []v1alpha1.Finding
	stores   []v1alpha1.Datastore
	levels   []v1alpha1.PriorityLevel
	told     struct{ findings, stores, levels, process bool }
	memory   int64
	cpu      float64 // share of one processor since the look before
	spent    float64 // seconds of processors since the server has started
	spentAt  time.Time

	planes planesSeen

	// sent is the number of events per watch at the look before, since when rates are computed.
	sent map[string]int64
	rate map[string]float64
}

// slowEvery is how often what is slow to change is asked for.
const slowEvery = 5 * time.Second

// look asks for what has no log; before is what the look before this has found.
func (t *top) look(ctx context.Context, before state) state {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	s := before
	var noWatches, noStats, err error
	s.watches, _, noWatches = items[v1alpha1.Watch](ctx, t.asker, recorderPath+"watches")
	s.webhooks, _, noStats = items[v1alpha1.WebhookStat](ctx, t.asker, recorderPath+"webhookstats")
	s.trouble = errors.Join(noWatches, noStats)
	s.at = time.Now()
	s.rates(&before)
	if s.trouble != nil || s.at.Sub(before.slow) < min(slowEvery, t.window)*9/10 { // the looks at both ends of a window are less than a window apart
		return s
	}
	s.slow = s.at
	s.levels, _, err = items[v1alpha1.PriorityLevel](ctx, t.asker, recorderPath+"prioritylevels")
	s.told.levels = err == nil
	s.findings, _, err = items[v1alpha1.Finding](ctx, t.asker, recorderPath+"findings")
	s.told.findings = err == nil
	s.stores, _, err = items[v1alpha1.Datastore](ctx, t.asker, recorderPath+"datastores")
	s.told.stores = err == nil
	t.process(ctx, &s, &before)
	t.lookAtPlanes(ctx, &s, &before)
	return s
}

// rates computes how many events each watch was sent per second.
func (s *state) rates(before *state) {
	s.sent, s.rate = map[string]int64{}, map[string]float64{}
	seconds := s.at.Sub(before.at).Seconds()
	for n := range s.watches {
		w := &s.watches[n]
		name := w.ObjectMeta.Name // Name is that of what is watched
		s.sent[name] = w.Events
		if was, known := before.sent[name]; known && seconds > 0 {
			s.rate[name] = max(0, float64(w.Events-was)/seconds)
		}
	}
}

// process reads from the metrics what the server's process takes.
func (t *top) process(ctx context.Context, s, before *state) {
	s.told.process = false
	body, err := t.send(ctx, http.MethodGet, "/metrics", "text/plain", nil)
	if err != nil {
		return
	}
	defer body.Close()
	memory, spent, awake, asleep := -1.0, -1.0, 0.0, 0.0
	whole := metricsOf(&bounded{body, maxList}, map[string]*float64{"process_resident_memory_bytes": &memory, "process_cpu_seconds_total": &spent,
		`kanzen_planes{state="Awake"}`: &awake, `kanzen_planes{state="Asleep"}`: &asleep})
	s.planes.awake, s.planes.asleep = int(awake), int(asleep)
	if memory < 0 || spent < 0 || !whole {
		return
	}
	s.told.process, s.memory, s.spent, s.spentAt = true, int64(memory), spent, s.at
	if seconds := s.at.Sub(before.spentAt).Seconds(); !before.spentAt.IsZero() && seconds > 0 {
		s.cpu = max(0, spent-before.spent) / seconds
	}
}

// problems counts what is wrong, and the errors among it.
func (s *state) problems() (all, errors int) {
	for _, f := range s.findings {
		if f.Severity == v1alpha1.SeverityError {
			errors++
		}
	}
	return len(s.findings), errors
}

// seats returns those of all priority levels that hold requests back, how many are taken, and the requests that wait for one.
func (s *state) seats() (all, taken, waiting int64) {
	for n := range s.levels {
		if l := &s.levels[n]; !l.Exempt {
			all, taken, waiting = all+l.Seats, taken+l.SeatsInUse, waiting+l.Waiting
		}
	}
	return all, taken, waiting
}

// storage returns the bytes of all databases, and how long the slowest took to answer.
func (s *state) storage() (bytes int64, latency time.Duration, away bool) {
	for n := range s.stores {
		d := &s.stores[n]
		bytes, latency, away = bytes+d.Bytes, max(latency, d.Latency.Duration), away || d.Error != ""
	}
	return bytes, latency, away
}

// report is what programs are told of it.
func (s *state) report() map[string]any {
	out := map[string]any{}
	if s.told.findings {
		out["problems"], out["errors"] = s.problems()
	}
	if s.told.process {
		out["cpu"], out["memoryBytes"] = s.cpu, s.memory
	}
	if s.told.stores {
		bytes, latency, _ := s.storage()
		out["storageBytes"], out["storageLatency"] = bytes, latency
	}
	if s.told.levels {
		out["seats"], out["seatsInUse"], out["waiting"] = s.seats()
	}
	return out
}

// request asks for one request, with all that is known of it.
func (t *top) request(ctx context.Context, name string) (*v1alpha1.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	body, err := t.send(ctx, http.MethodGet, recorderPath+"requests/"+url.PathEscape(name), "", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var rec v1alpha1.Request
	return &rec, json.NewDecoder(&bounded{body, maxItem}).Decode(&rec)
}
