package recorder

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestFamilies measures priority levels and resources that come and go.
func TestFamilies(t *testing.T) {
	revision := int64(1)
	m, clk := newMeasuring(t, &revision)
	level := &v1alpha1.PriorityLevel{ObjectMeta: metav1.ObjectMeta{Name: "tenants.x"}, Rejected: 100}
	m.parts.PriorityLevels = func() []*v1alpha1.PriorityLevel {
		return []*v1alpha1.PriorityLevel{level, {ObjectMeta: metav1.ObjectMeta{Name: "idle"}}}
	}
	var views []*v1alpha1.View
	m.parts.Views = func() []*v1alpha1.View { return views }
	m.begin(t.Context())
	step := func() {
		clk.Step(SeriesStep)
		p, families := m.measure(t.Context(), clk.Now())
		m.series.add(clk.Now(), &p, families)
	}
	step()
	level.SeatsInUse, level.Waiting, level.Rejected, level.TimedOut = 7, 3, 105, 5
	for n := range 20 {
		views = append(views, &v1alpha1.View{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%d.example.com", n)}, Bytes: int64(100 - n)})
	}
	step()
	views[0].Bytes = 1 // it is small now, and still told of
	slices.Reverse(views)
	step()
	for name, want := range map[string][]float32{"levelSeats.tenants.x": {0, 7, 7}, "levelWaiting.tenants.x": {0, 3, 3}, "levelRefused.tenants.x": {0, 2, 0}, "levelSeats.idle": nil,
		"kindBytes.r0.example.com": {0, 100, 1}, "kindBytes.r9.example.com": nil, "kindBytes.r19.example.com": {0, 0, 81}} {
		if got := ofSeries(m.Recorder, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if s := seriesOf("levelSeats.tenants.x") + seriesOf("kindBytes.a") + seriesOf("seats.inUse"); s != "levelskindsserver" {
		t.Error(s)
	}
	// Users make priority levels. There are no more series than may be, and those of what is gone end an hour later.
	m.parts.PriorityLevels = func() (all []*v1alpha1.PriorityLevel) {
		for n := range 1000 {
			all = append(all, &v1alpha1.PriorityLevel{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("l", n)}, SeatsInUse: 1, Waiting: 1, Rejected: clk.Now().Unix()})
		}
		return all
	}
	step()
	step()
	count := func() (n int) {
		for _, s := range m.TimeSeries() {
			if strings.HasPrefix(s.Name, "level") {
				n++
			}
		}
		return n
	}
	if n := count(); n != 3*32 {
		t.Errorf("%d series of levels", n)
	}
	m.parts.PriorityLevels = func() []*v1alpha1.PriorityLevel { return nil }
	for range int(time.Hour / SeriesStep) {
		step()
	}
	if n := count(); n != 0 {
		t.Errorf("%d series of levels that are gone for an hour", n)
	}
}
