package side

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Pauses are the times for which a process's garbage collector stopped the program, by the metric go_gc_duration_seconds.
type Pauses struct {
	Count             int           // since the process started
	Total             time.Duration // of all these
	Shortest, Longest time.Duration // of the last 256
}

// Pauses asks each process of the side: the API server and, if it is one of its own, etcd.
func (s *Side) Pauses(ctx context.Context) ([]Pauses, error) {
	clients := []*Client{s.Client()}
	if s.Name == Peer {
		clients = append(clients, NewClient(s.etcd, ""))
	}
	var out []Pauses
	for _, c := range clients {
		defer c.Close()
		var body bytes.Buffer
		if err := c.Do(ctx, Request{Method: http.MethodGet, Path: "/metrics", Accept: "*/*"}, &body); err != nil {
			return nil, err
		}
		p, err := parsePauses(body.Bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// parsePauses finds the metric in an answer of /metrics.
func parsePauses(metrics []byte) (p Pauses, err error) {
	var count float64
	seconds := func(to *time.Duration) func(float64) {
		return func(v float64) { *to = time.Duration(v * float64(time.Second)) }
	}
	fields := map[string]func(float64){
		`{quantile="0"}`: seconds(&p.Shortest),
		`{quantile="1"}`: seconds(&p.Longest),
		`_sum`:           seconds(&p.Total),
		`_count`:         func(v float64) { count = v },
	}
	for line := range bytes.Lines(metrics) {
		rest, ok := bytes.CutPrefix(line, []byte("go_gc_duration_seconds"))
		if !ok {
			continue
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
		set := fields[string(name)]
		if set == nil {
			continue
		}
		v, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			return p, err
		}
		set(v)
		delete(fields, string(name))
	}
	if len(fields) > 0 {
		return p, fmt.Errorf("/metrics lacks parts of go_gc_duration_seconds")
	}
	p.Count = int(count)
	return p, nil
}

// Since is how long the stops since an earlier reading were together, and how long the longest was at most: it was no longer than the
// longest of the last 256, nor than what the others leave of the total if each was as short as the shortest. It is exact if no earlier
// stop among the 256 was longer.
func (p Pauses) Since(earlier Pauses) (total, longest time.Duration) {
	n := p.Count - earlier.Count
	if n == 0 {
		return 0, 0
	}
	total = p.Total - earlier.Total
	return total, min(p.Longest, total-time.Duration(n-1)*p.Shortest)
}
