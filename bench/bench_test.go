package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{2567.8, "ms", "2568 ms"}, {279, "ms", "279 ms"}, {21.375, "ms", "21.4 ms"}, {2.097, "ms", "2.10 ms"},
		{0.0785, "ms", "0.0785 ms"}, {12738.2, "", "12738"}, {0, "ms", "0.00 ms"}, {math.NaN(), "ms", ""},
	} {
		if got := number(c.value, c.unit); got != c.want {
			t.Errorf("number(%v, %q) = %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	r := &results{}
	for i, v := range []float64{30, 10, 20} { // a run in which all is slow changes no ratio
		r.add(cpuSection, "get a pod", "ms", side.Peer, v)
		r.add(cpuSection, "get a pod", "ms", side.Kanzen, []float64{6, 2, 5}[i])
	}
	r.add(memorySection, "idle", "MiB", side.Peer, 100)
	r.add(memorySection, "idle", "MiB", side.Kanzen, 20)
	r.add(memorySection, "idle", "MiB", side.Pebble, 10)
	r.add(cpuSection, "get a pod", "ms", side.Bare, 1)
	r.add(cpuSection, "get a pod", "ms", side.Bare, 2)
	r.addHigher(watchSection, "deliveries", "", side.Peer, 100)
	r.addHigher(watchSection, "deliveries", "", side.Kanzen, 250)
	tables := r.tables()
	for _, want := range []string{
		"| idle |               100 MiB | 20.0 MiB |               5.00× |         10.0 MiB |                         10.0× |\n",
		"| get a pod |   20.0 ms (10.0–30.0) | 5.00 ms (2.00–6.00) |   5.00× (4.00–5.00) | 1.50 ms (1.00–2.00) |\n",
		"| deliveries |                   100 |    250 |               2.50× |\n",
	} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables lack %q:\n%s", want, tables)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(r.plot())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is not XML: %v", err)
		}
	}
}

// The lists by selector must find the pods that creation makes.
func TestLoadsAgree(t *testing.T) {
	for _, pods := range []int{100, 300, 307, 308, 3000} {
		labelled := 0
		for _, l := range loads(pods) {
			if l.name != "create" {
				continue
			}
			for i := range l.round {
				var pod struct {
					Metadata struct {
						Namespace string
						Labels    map[string]string
					}
				}
				if err := json.Unmarshal([]byte(l.request(i).Body), &pod); err != nil {
					t.Fatal(err)
				}
				if pod.Metadata.Namespace == namespace && pod.Metadata.Labels["shard"] == "shard-7" {
					labelled++
				}
			}
		}
		list := `{"items":[` + strings.TrimSuffix(strings.Repeat("{},", labelled), ",") + `]}`
		for _, l := range loads(pods) {
			if l.name != "list-label" && l.name != "list-node" {
				continue
			}
			if err := l.check([]byte(list)); err != nil {
				t.Errorf("%d pods: %s: %v", pods, l.name, err)
			}
		}
	}
}

func TestFollow(t *testing.T) {
	f := &fanOut{base: 40, sent: make([]atomic.Int64, 2), left: make([]atomic.Int64, 2), seen: make(chan int, 2), began: time.Now()}
	f.left[0].Store(1)
	f.left[1].Store(2)
	stream := `{"metadata":{"annotations":{"` + marker + `":"40"},"managedFields":[{"f:` + marker + `":{}}]}}` + "\n" +
		`{"metadata":{"annotations":{"` + marker + `":"41"}}}` + "\n"
	if err := f.follow(strings.NewReader(stream)); !errors.Is(err, io.EOF) {
		t.Fatalf("follow = %v", err)
	}
	if len(f.seen) != 1 || <-f.seen != 0 || f.left[1].Load() != 1 || len(f.latencies()) != 2 {
		t.Errorf("mark 0 should be seen by all, mark 1 by one of two")
	}
	stale := `{"metadata":{"annotations":{"` + marker + `":"39"}}}` + "\n"
	if err := f.follow(strings.NewReader(stale)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a mark of an earlier measurement: %v", err)
	}
	if err := f.follow(strings.NewReader("{}\n")); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an event without a mark: %v", err)
	}
}

// held is a connection that answers when all requests are under way: one that waits for answers gets none.
type held struct {
	left     *sync.WaitGroup
	outcomes []error
}

func (c held) do(ctx context.Context, _ load, i int, _ *bytes.Buffer) (time.Duration, error) {
	c.left.Done()
	c.left.Wait()
	return 0, c.outcomes[i%len(c.outcomes)]
}

func (held) Close() {}

func TestPace(t *testing.T) {
	const n = 60
	all := &sync.WaitGroup{}
	all.Add(n)
	failed := errors.New("connection lost")
	c := held{all, []error{nil, &side.StatusError{Code: http.StatusTooManyRequests}, fmt.Errorf("get: %w", context.DeadlineExceeded), failed, nil, nil}}
	s := &sender{clients: []connection{c, c}}
	o, err := s.pace(t.Context(), 600, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if o.sent != n || len(o.took) != n/2 || o.refused != n/6 || o.expired != n/6 || o.failed != n/6 || !errors.Is(o.failure, failed) {
		t.Errorf("%d sent, %d answered, %d refused, %d timed out, %d failed (%v)", o.sent, len(o.took), o.refused, o.expired, o.failed, o.failure)
	}
	// All were answered when the last was due, 98 ms after the first.
	if took := side.Percentile(o.took, 100); took < 98*time.Millisecond {
		t.Errorf("the slowest took %v", took)
	}
}

func TestLateArrival(t *testing.T) {
	s := &sender{}
	err := s.on(t.Context(), nil, arrival{due: time.Now().Add(-patience)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that nobody waits for: %v", err)
	}
}

func TestNames(t *testing.T) {
	b := &bench{pods: 100, crs: 100}
	for _, name := range tailNames {
		if !slices.Contains(loadNames(loads(b.pods)), name) {
			t.Errorf("there is no load %s", name)
		}
	}
	names := b.names()
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("names occur twice: %v", names)
	}
	b.only = []string{"secret-list"}
	if b.wantsAny(b.firstNames()...) {
		t.Error("Secrets are said to be measured with all else")
	}
}
