package process

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/observe/recorder"
)

// Recorder makes the flight recorder, nil without --flight-recorder-memory.
func (p *Process) Recorder(register func(...prometheus.Collector)) (*recorder.Recorder, error) {
	root := p.Root
	if root.FlightRecorderMemory == 0 {
		return nil, nil
	}
	c := recorder.Config{Memory: root.FlightRecorderMemory, Slow: root.FlightRecorderSlow, Sample: root.FlightRecorderSample, Clock: p.Clock, Log: p.Log}
	if dir := root.RecorderDir(); dir != "" {
		disk, err := recorder.OpenDisk(recorder.DiskConfig{Dir: dir, Size: root.FlightRecorderDirSize, Age: root.FlightRecorderDirAge, Clock: p.Clock, Log: p.Log})
		switch {
		case err == nil:
			c.Disk = disk
		case root.FlightRecorderDir != "":
			return nil, fmt.Errorf("--flight-recorder-dir: %w", err)
		default: // nobody has asked for it
			p.Log.Warn("the flight recorder keeps requests in memory only", "dir", dir, "error", err)
		}
	}
	r := recorder.New(c)
	register(r)
	return r, nil
}
