package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// outcome is all that was measured on a side.
type outcome struct {
	alone, flooded part
	before, after  float64 // resident memory in MiB
}

// judge holds what was measured to what is promised. idle says that the
// processors were not what there was too little of.
func (o *outcome) judge(idle bool) error {
	var errs []error
	limit := 2 * o.alone.series[tenant].at(99)
	if got := o.flooded.series[tenant].at(99); idle && got > limit {
		errs = append(errs, fmt.Errorf("the tenant's p99 is %s, more than %s", got, limit))
	}
	for _, p := range []*part{&o.alone, &o.flooded} {
		for n, s := range p.series {
			if s.refused > 0 {
				errs = append(errs, fmt.Errorf("%d requests of the %s were refused", s.refused, others[n].name))
			}
		}
	}
	if o.after > o.before+200 {
		errs = append(errs, fmt.Errorf("the server grew from %.0f to %.0f MiB", o.before, o.after))
	}
	return errors.Join(errs...)
}

// compare prints the figures of two sides beside each other.
func compare(peer, kanzen *outcome) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n\t%s\t%s\tkanzen is better by\t\n", side.Peer, side.Kanzen)
	row := func(what, unit string, peer, kanzen, ratio float64) {
		fmt.Fprintf(out, "%s\t%.2f %s\t%.2f %s\t%.2f×\t\n", what, peer, unit, kanzen, unit, ratio)
	}
	for _, p := range []struct {
		name         string
		peer, kanzen *part
	}{
		{"alone", &peer.alone, &kanzen.alone},
		{"flood", &peer.flooded, &kanzen.flooded},
	} {
		for n, o := range others {
			for _, percent := range []int{50, 99} {
				a, b := ms(p.peer.series[n].at(percent)), ms(p.kanzen.series[n].at(percent))
				row(fmt.Sprintf("%s: %s's p%d", p.name, o.name, percent), "ms", a, b, a/b)
			}
		}
		if a, b := p.peer.rates, p.kanzen.rates; a != nil {
			row(p.name+": served", "/s", a.Served, b.Served, b.Served/a.Served)
			row(p.name+": processors", "", p.peer.processors, p.kanzen.processors, p.peer.processors/p.kanzen.processors)
		}
	}
	row("memory after", "MiB", peer.after, kanzen.after, peer.after/kanzen.after)
	_ = out.Flush() // nobody is left to tell if nobody reads
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
