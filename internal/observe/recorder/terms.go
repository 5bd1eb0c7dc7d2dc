package recorder

import (
	"fmt"
	"time"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// requestTerms are terms of field selectors that choose requests by when they arrived and how long they took:
// since=10m,until=2026-01-31T15:04:05Z,slower=500ms.
func (r *Recorder) requestTerms() map[string]func(string) (func(engine.Object) bool, error) {
	arrived := func(chosen func(arrived, at time.Time) bool) func(string) (func(engine.Object) bool, error) {
		return func(value string) (func(engine.Object) bool, error) {
			at, err := moment(value, r.Clock.Now())
			return aboutRequest(func(q *v1alpha1.Request) bool { return chosen(q.Time.Time, at) }), err
		}
	}
	return map[string]func(string) (func(engine.Object) bool, error){
		"since": arrived(func(arrived, at time.Time) bool { return !arrived.Before(at) }),
		"until": arrived(func(arrived, at time.Time) bool { return !arrived.After(at) }),
		"slower": func(value string) (func(engine.Object) bool, error) {
			least, err := time.ParseDuration(value)
			if err != nil {
				return nil, fmt.Errorf("%q is no duration, as 500ms", value)
			}
			return aboutRequest(func(q *v1alpha1.Request) bool { return q.Duration.Duration >= least }), nil
		},
	}
}

func aboutRequest(holds func(*v1alpha1.Request) bool) func(engine.Object) bool {
	return func(obj engine.Object) bool {
		q, ok := obj.(*v1alpha1.Request)
		return ok && holds(q)
	}
}

// moment reads a time, or how long ago it was.
func moment(value string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(value); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a duration, as 10m, nor a time, as 2026-01-31T15:04:05Z", value)
	}
	return at, nil
}

// disorder is by how much requests may be kept in another order than that in which they ended.
const disorder = time.Second

// ended is when the answer to a request was complete.
func ended(rec *v1alpha1.Record) time.Time { return rec.Time.Add(rec.Duration.Duration) }
