package recorder

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Traffic is about the last trafficWindow, from at most trafficRecords records of each shard of a class. Of each thing that
// requests are counted by it tells the trafficRows most frequent values, and keeps maxCounted apart while it counts: who
// sends requests under ever new names costs no more than that.
const (
	trafficWindow  = time.Minute
	trafficRecords = 4000
	trafficRows    = 100
	maxCounted     = 2000
)

// trafficOf is what requests are counted by.
type trafficOf struct {
	by                                                  string
	verb, group, resource, client, user, layer, webhook string
}

// traffic counts the requests of one kind.
type traffic struct {
	rate, refused, failed, bytes    float64
	writes, writtenBytes, unchanged float64
	times                           Times[float32] // by rate
}

// count adds a request, or a part of one, that stands for so many a second.
func (t *traffic) count(rate float64, took time.Duration, timed bool) {
	t.rate += rate
	if timed {
		t.times.Add(took, float32(rate))
	}
}

// write counts a request that was meant to store something and was taken.
func (t *traffic) write(rec *v1alpha1.Record, rate float64) {
	if rec.Kept != v1alpha1.KeptWrite || rec.Code >= 400 || rec.Resource == "" || rec.DryRun {
		return
	}
	t.writes += rate
	t.writtenBytes += rate * float64(rec.RequestBytes)
	if Updates(rec) && len(rec.Changes)+rec.MoreChanges == 0 {
		t.unchanged += rate
	}
}

// Updates says that a request was to change an object that has a name, itself or by its status or scale.
func Updates(rec *v1alpha1.Record) bool {
	return (rec.Verb == "update" || rec.Verb == "patch") && rec.Name != "" && (rec.Subresource == "" || rec.Subresource == "status" || rec.Subresource == "scale")
}

// counted is traffic by everything.
type counted struct {
	all   map[trafficOf]*traffic
	sizes map[string]int
}

func (c *counted) of(k trafficOf) *traffic {
	t := c.all[k]
	if t == nil {
		if c.sizes[k.by] >= maxCounted {
			if k = (trafficOf{by: k.by, client: others, user: others, resource: others}); c.all[k] != nil {
				return c.all[k]
			}
		}
		t = &traffic{}
		c.all[k] = t
		c.sizes[k.by]++
	}
	return t
}

// others is the name of what does not fit.
const others = "(others)"

// Traffic returns the requests of the last minute, counted by what they have in common, the most frequent first.
func (r *Recorder) Traffic() []*v1alpha1.TrafficStat {
	now := r.Clock.Now()
	from := now.Add(-trafficWindow)
	if r.began.After(from) {
		from = r.began
	}
	c := counted{all: map[trafficOf]*traffic{}, sizes: map[string]int{}}
	for class := range r.rings {
		records, since := r.rings[class].recent(from, trafficRecords)
		span := max(time.Second, now.Sub(since)).Seconds()
		for _, rec := range records {
			if rec.Console {
				continue // who looks at the figures does not change them
			}
			c.request(rec, float64(rec.Weight)/span)
		}
	}
	return c.shown()
}

// Streams says that a request lasts as long as its client likes.
func Streams(rec *v1alpha1.Record) bool {
	switch rec.Subresource {
	case "exec", "attach", "portforward", "proxy", "log":
		return true
	}
	return rec.Verb == "watch"
}

func (c *counted) request(rec *v1alpha1.Record, rate float64) {
	took, timed := rec.Duration.Duration, !Streams(rec)
	client, resource := Program(rec.UserAgent), rec.Resource
	if resource == "" {
		resource = rec.Path
	}
	for _, k := range [...]trafficOf{
		{by: v1alpha1.ByAll},
		{by: v1alpha1.ByVerb, verb: rec.Verb},
		{by: v1alpha1.ByResource, group: rec.Group, resource: resource},
		{by: v1alpha1.ByClient, client: client},
		{by: v1alpha1.ByUser, user: cmp.Or(rec.Impersonated, rec.User)},
		{by: v1alpha1.ByClientResource, client: client, group: rec.Group, resource: resource},
	} {
		t := c.of(k)
		t.count(rate, took, timed)
		t.bytes += rate * float64(rec.ResponseBytes)
		switch {
		case rec.Code >= 500:
			t.failed += rate
		case rec.Code >= 400 && rec.Code != 404:
			t.refused += rate
		}
		t.write(rec, rate)
	}
	for _, l := range rec.Layers {
		c.of(trafficOf{by: v1alpha1.ByLayer, layer: l.Name}).count(rate, l.Duration.Duration, timed)
	}
	for n := range rec.Steps {
		s := &rec.Steps[n]
		if !asked(s) {
			continue
		}
		t := c.of(trafficOf{by: v1alpha1.ByResourceWebhook, group: rec.Group, resource: resource, webhook: s.Name})
		t.count(rate, s.Duration.Duration, true)
		switch s.Result {
		case request.StepRefused:
			t.refused += rate
		case request.StepFailed, request.StepTimedOut:
			t.failed += rate
		}
	}
}

// shown returns the most frequent of each kind.
func (c *counted) shown() []*v1alpha1.TrafficStat {
	keys := slices.SortedFunc(maps.Keys(c.all), func(a, b trafficOf) int {
		return cmp.Or(strings.Compare(a.by, b.by), cmp.Compare(c.all[b].rate, c.all[a].rate), strings.Compare(a.user, b.user), strings.Compare(a.client, b.client),
			strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource), strings.Compare(a.verb, b.verb), strings.Compare(a.layer, b.layer), strings.Compare(a.webhook, b.webhook))
	})
	rows := map[string]int{}
	var out []*v1alpha1.TrafficStat
	for _, k := range keys {
		if rows[k.by]++; rows[k.by] > trafficRows {
			continue
		}
		t := c.all[k]
		s := &v1alpha1.TrafficStat{By: k.by, Verb: k.verb, Group: k.group, Resource: k.resource, Client: k.client, User: k.user, Layer: k.layer, Webhook: k.webhook,
			PerSecond: t.rate, RefusedPerSecond: t.refused, FailedPerSecond: t.failed, BytesPerSecond: t.bytes,
			WritesPerSecond: t.writes, WrittenBytesPerSecond: t.writtenBytes, UnchangedPerSecond: t.unchanged,
			P50: metav1.Duration{Duration: t.times.Quantile(.5)}, P99: metav1.Duration{Duration: t.times.Quantile(.99)}, Max: metav1.Duration{Duration: t.times.Max()}}
		s.ObjectMeta.Name = nameOfTraffic(k)
		out = append(out, s)
	}
	return out
}

// nameOfTraffic makes the name of an object: what clients send may have any characters.
func nameOfTraffic(k trafficOf) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q", []string{k.verb, k.group, k.resource, k.client, k.user, k.layer, k.webhook})
	return fmt.Sprintf("%s.%016x", strings.ToLower(k.by), h.Sum64())
}

// kept is the result of a func for a moment, so that many readers cost no more than one.
type kept[T any] struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	at    time.Time // guarded by mu, as value
	value T
}

// keptFor is how long it is the same.
const keptFor = time.Second

// get returns the value, made anew if it is old. Readers wait for one another.
func (k *kept[T]) get(make func() T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.clock.Now(); k.at.IsZero() || now.Sub(k.at) >= keptFor {
		k.value, k.at = make(), now
	}
	return k.value
}
