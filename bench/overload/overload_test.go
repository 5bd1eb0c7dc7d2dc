package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A flood that is refused comes again at once, unless it is polite.
func TestPolite(t *testing.T) {
	for _, polite := range []bool{false, true} {
		var asked atomic.Int64
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				return // it connects
			}
			asked.Add(1)
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		defer srv.Close()
		const clients = 2
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got := flood{clients: clients, polite: polite}.send(ctx, srv.URL, func() { time.AfterFunc(300*time.Millisecond, cancel) })
		if n := asked.Load(); (n == clients) != polite || got.Served+got.Failed > 0 {
			t.Errorf("polite %v: %d connections asked %d times, %+v", polite, clients, n, got)
		}
	}
}

func TestJudge(t *testing.T) {
	measured := func(alone, flooded time.Duration) *outcome {
		var o outcome
		o.alone.series[tenant].took = []time.Duration{alone}
		o.flooded.series[tenant].took = []time.Duration{flooded}
		return &o
	}
	refused, grown := measured(1, 1), measured(1, 1)
	refused.flooded.series[1].refused = 3
	grown.before, grown.after = 100, 301
	for name, c := range map[string]struct {
		outcome *outcome
		idle    bool
		want    string // of the error; empty if there is none
	}{
		"twice as long":       {measured(2*time.Millisecond, 4*time.Millisecond), true, ""},
		"longer":              {measured(2*time.Millisecond, 5*time.Millisecond), true, "the tenant's p99 is 5ms, more than 4ms"},
		"busy with the flood": {measured(2*time.Millisecond, 5*time.Millisecond), false, ""},
		"refused":             {refused, true, "3 requests of the node were refused"},
		"grown":               {grown, false, "the server grew from 100 to 301 MiB"},
	} {
		err := c.outcome.judge(c.idle)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
