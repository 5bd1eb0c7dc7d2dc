package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// What the formulas of docs/scale.md are made of, in microseconds and KiB.
const (
	leaseCost    = 370
	createCost   = 710
	statusCost   = 840
	deliveryCost = 34
	idleCost     = 16000 // each second
	podMemory    = 22
	watchMemory  = 57
)

// work is what nodes and controllers did in a part of the measurement.
type work struct {
	leases, statuses, creates, podStatuses, deletes, deliveries int64
}

// minus is the work since an earlier moment.
func (w work) minus(o work) work {
	return work{w.leases - o.leases, w.statuses - o.statuses, w.creates - o.creates, w.podStatuses - o.podStatuses, w.deletes - o.deletes, w.deliveries - o.deliveries}
}

// predicted is what docs/scale.md says that it costs in cores, done within a time.
func (w work) predicted(within time.Duration) float64 {
	requests := w.leases*leaseCost + (w.statuses+w.podStatuses)*statusCost + (w.creates+w.deletes)*createCost + w.deliveries*deliveryCost
	micros := float64(requests) + idleCost*within.Seconds()
	return micros / float64(within.Microseconds())
}

// row is one part of the measurement at one size.
type row struct {
	side               string
	nodes              int
	part               string
	seconds            float64
	did                work
	predicted, used    float64 // cores
	leases, writes     times
	memory, memoryGoal float64 // MiB
}

func printRows(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "side\tnodes\tpart\tleases/s\tnode statuses/s\tpod writes/s\tdeliveries/s\tcores predicted\tmeasured\tratio\tlease: median ms\tp99\twrite of a pod: median ms\tp99\tMiB predicted\tmeasured\t")
	for _, r := range rows {
		rate := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/r.seconds) }
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t\n", r.side, r.nodes, r.part, rate(r.did.leases), rate(r.did.statuses),
			rate(r.did.creates+r.did.podStatuses+r.did.deletes), rate(r.did.deliveries), r.predicted, r.used, r.used/r.predicted, r.leases.median, r.leases.p99,
			r.writes.median, r.writes.p99, r.memoryGoal, r.memory)
	}
	_ = w.Flush() // to standard output; the last thing that is done
}
