//go:build unix

package planes

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPassed asks for an object of a plane at the server that has it, and at another, over TLS. Client and servers are one process.
func BenchmarkPassed(b *testing.B) {
	s := startSeveral(b, 2)
	s.all[0].create(b, "one", PlaneSpec{})
	s.all[0].must(b, "one", "GET", "/api/v1/namespaces", "", nil)
	for n, name := range [...]string{"owner", "other"} {
		b.Run(name, func(b *testing.B) {
			c := s.all[n].over(b, "one")
			get := func() {
				if err := c.Do(b.Context(), http.MethodGet, "/api/v1/namespaces/default", "", nil, nil); err != nil {
					b.Fatal(err)
				}
			}
			get() // connects
			var times []time.Duration
			before := worked(b)
			for b.Loop() {
				began := time.Now()
				get()
				times = append(times, time.Since(began))
			}
			b.ReportMetric(float64((worked(b)-before).Nanoseconds())/float64(len(times)), "cpu-ns/op")
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-ns")
		})
	}
}

// worked returns the processor time of the process.
func worked(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
