package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/bench/side"
)

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name   string
		points []point
		want   string
	}{
		{"linear", []point{{10, 2}, {100, 20}, {1000, 200}}, "N^1.00 from 10 to 1,000"},
		{"flat", []point{{10, 3}, {1_000_000, 3}}, "N^0.00 from 10 to 1,000,000"},
		{"bent", []point{{10, 1}, {100, 1}, {1000, 10}, {10_000, 100}}, "N^0.67 from 10 to 10,000; bends at 100, from N^0.00 to N^1.00"},
		{"nothing", []point{{10, 1}, {100, -1}}, "nothing to measure at 100"},
		{"alone", []point{{10, 1}}, "one point"},
	} {
		if got := (&curve{points: c.points}).growth(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCurves(t *testing.T) {
	c := &curves{}
	p := panel{"Definitions: <time>", "definitions", "ms"}
	for _, n := range []int{10, 100, 1000} {
		c.add(p, side.Kanzen, "create", n, 0.002*float64(n))
	}
	c.add(p, side.Peer, "create", 10, 4)
	c.add(panel{"nothing", "of it", ""}, side.Kanzen, "zero", 10, 0) // must not be taken the logarithm of
	tables := c.tables()
	for _, want := range []string{"| 10          |      0.0200 ms |                       4.00 ms |\n", "| 1,000       |        2.00 ms |                               |\n",
		"- kanzen: create: N^1.00 from 10 to 1,000\n"} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables lack %q:\n%s", want, tables)
		}
	}
	plot := c.plot()
	if strings.Contains(plot, "NaN") || strings.Contains(plot, "Inf") {
		t.Errorf("the plot has places that are none:\n%s", plot)
	}
	for d := xml.NewDecoder(strings.NewReader(plot)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is not XML: %v", err)
		}
	}
}

func TestContinueToken(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc=","remainingItemCount":3},"items":[{"metadata":{"continue":"x"}}]}`: "abc=",
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`:                                                                       "",
	} {
		if got, err := continueToken([]byte(body)); err != nil || got != want {
			t.Errorf("continueToken(%s) = %q, %v, want %q", body, got, err, want)
		}
	}
	if _, err := continueToken([]byte("no list")); err == nil {
		t.Error("no list, and no error")
	}
}

func TestSizesOfThePeer(t *testing.T) {
	z := fullSizes.tenth()
	if len(z.objects) != 2 || len(z.crds) != 3 || len(z.watchers) != len(fullSizes.watchers) || len(z.clients) != len(fullSizes.clients) {
		t.Errorf("the peer has %v", z)
	}
}
