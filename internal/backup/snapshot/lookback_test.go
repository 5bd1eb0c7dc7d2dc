package snapshot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/observe/findings"
)

// TestLookBack starts a scheduler where an earlier one has left snapshots.
func TestLookBack(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	daily, err := ParseSchedule("0 0 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		made []time.Time
		want findings.Snapshots
	}{
		"none":  {nil, findings.Snapshots{}},
		"fresh": {[]time.Time{now.Add(-60 * time.Hour), now.Add(-12 * time.Hour)}, findings.Snapshots{Last: now.Add(-12 * time.Hour)}},
		"late":  {[]time.Time{now.Add(-60 * time.Hour)}, findings.Snapshots{Last: now.Add(-60 * time.Hour), Due: time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC)}},
	} {
		dir := t.TempDir()
		for _, at := range c.made {
			if err := os.WriteFile(filepath.Join(dir, nameAt(at)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := &Scheduler{ScheduleConfig: ScheduleConfig{When: daily, Places: []Place{Dir(dir), Dir(filepath.Join(dir, "missing"))}, Clock: testingclock.NewFakeClock(now)}}
		s.lookBack(t.Context())
		if got := s.State(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
