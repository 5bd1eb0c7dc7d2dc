package server

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/process/config"
)

// BenchmarkHistory measures what the history costs the writes of pods and of their status, in processor time of the whole process, and the
// bytes on disk.
func BenchmarkHistory(b *testing.B) {
	for _, age := range []time.Duration{0, time.Hour} {
		b.Run(fmt.Sprint("kept for ", age), func(b *testing.B) {
			s := startWith(b, func(c *config.Config) { c.History, c.Engine = age, config.EnginePebble })
			withAccount(b, s)
			const some = 100
			for n := range some {
				do(b, s, "POST", pods, "application/json", "", podJSON(b, fmt.Sprint("p", n)), 201)
			}
			before := cpu(b)
			n := 0
			for b.Loop() {
				n++
				status := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-%02dT01:%02d:%02dZ"}],"phase":"Running","podIP":"10.0.%d.%d"}}`, 1+n/3600%28, n/60%60, n%60, n/200%200, n%200)
				do(b, s, "PATCH", fmt.Sprintf("%s/p%d/status", pods, n%some), "application/merge-patch+json", "", status, 200)
			}
			if s.history != nil {
				if err := s.history.Reach(b.Context(), s.base.objects.Store.All()[0].Revision()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(n), "cpu-ns/op")
			if s.history != nil {
				b.ReportMetric(float64(s.history.Size())/float64(n), "B-kept/op")
				if err := s.history.Flush(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(bytesBelow(b, filepath.Join(s.base.root.DataDir, "history")))/float64(n), "B-files/op")
			}
		})
	}
}

func bytesBelow(t testing.TB, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
