package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// figures are what a server's process holds, after its garbage was collected.
type figures struct {
	Process     int `json:"process"`     // its id: figures of another process are not comparable
	Resident    int `json:"resident"`    // MiB
	Heap        int `json:"heap"`        // MiB
	Goroutines  int `json:"goroutines"`  //
	Descriptors int `json:"descriptors"` //
	Threads     int `json:"threads"`     //
	Disk        int `json:"disk"`        // MiB, of the data directory
	Series      int `json:"series"`      // of /metrics
	Watches     int `json:"watches"`     //
	Gone        int `json:"gone"`        // series that name what is not there any more
}

// growth is by how much a figure may be higher at the next rest.
type growth struct {
	name string
	of   func(figures) int
	// Up to the half caches fill, to their bounds, and things happen for the first time. After that nothing is new: what grows is lost.
	first, then allowance
}

// allowance is a share of a figure, and a number.
type allowance struct {
	share float64
	plus  int
}

// growths are why a figure may be another at the same state: caches that fill up to their bounds, connections that are idle for a while, threads that
// Go keeps, records that are kept on disk up to a bound, and series of what happened for the first time.
var growths = []growth{
	{"resident memory in MiB", func(f figures) int { return f.Resident }, allowance{0.50, 96}, allowance{0.20, 48}},
	{"heap in MiB", func(f figures) int { return f.Heap }, allowance{0.50, 48}, allowance{0.10, 16}}, // 24 of them are the flight recorder's
	{"goroutines", func(f figures) int { return f.Goroutines }, allowance{0.10, 30}, allowance{0.10, 30}},
	{"descriptors", func(f figures) int { return f.Descriptors }, allowance{0.10, 20}, allowance{0.10, 20}},
	{"threads", func(f figures) int { return f.Threads }, allowance{0, 24}, allowance{0, 24}},
	{"disk in MiB", func(f figures) int { return f.Disk }, allowance{0, 64 + 64 + 8}, allowance{0, 64 + 64 + 8}}, // --flight-recorder-dir-size, the history, the rest
	{"series of metrics", func(f figures) int { return f.Series }, allowance{0.75, 500}, allowance{0.10, 500}},   // a server meets each client, verb and code at some time
	{"watches", func(f figures) int { return f.Watches }, allowance{0, 15}, allowance{0, 15}},
	{"series that name what is gone", func(f figures) int { return f.Gone }, allowance{}, allowance{}},
}

// grown are figures of a process that were not back where they had been.
func grown(server string, before, after figures, first bool) (wrong []string) {
	if before.Process != after.Process {
		return []string{fmt.Sprintf("%s: process %d, and then %d", server, before.Process, after.Process)}
	}
	for _, g := range growths {
		may := g.then
		if first {
			may = g.first
		}
		was, is := g.of(before), g.of(after)
		if limit := was + int(may.share*float64(was)) + may.plus; is > limit {
			wrong = append(wrong, fmt.Sprintf("%s: %s: %d, then %d; at most %d", server, g.name, was, is, limit))
		}
	}
	return wrong
}

var (
	sampleLine   = regexp.MustCompile(`(?m)^[a-z_].* \S+$`)
	goneNames    = regexp.MustCompile(`(?m)^[a-z_].*"[^"]*(?:g[0-9]+\.example\.org|ns-[0-9]{3,}|register-[0-9]+-|job-[0-9]{3,})`) // of churn and load
	metricOf     = func(name string) *regexp.Regexp { return regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)`) }
	goroutines   = metricOf("go_goroutines")
	heapAlloc    = metricOf("go_memstats_heap_alloc_bytes")
	watchesServe = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\S+)`)
)

// measure reads the figures of a server.
func (c *cluster) measure(ctx context.Context, s *node, k *kubernetes.Clientset) (figures, error) {
	s.mu.Lock()
	pid := s.cmd.Process.Pid
	s.mu.Unlock()
	f := figures{Process: pid}
	if _, err := k.RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return f, fmt.Errorf("collect the garbage of %s: %w", s.name, err)
	}
	text, err := k.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return f, fmt.Errorf("metrics of %s: %w", s.name, err)
	}
	f.Series, f.Gone = len(sampleLine.FindAll(text, -1)), len(goneNames.FindAll(text, -1))
	sum := func(r *regexp.Regexp) (total float64) {
		for _, m := range r.FindAllSubmatch(text, -1) {
			v, _ := strconv.ParseFloat(string(m[1]), 64)
			total += v
		}
		return total
	}
	f.Goroutines, f.Heap, f.Watches = int(sum(goroutines)), int(sum(heapAlloc))>>20, int(sum(watchesServe))
	if f.Goroutines == 0 || f.Heap == 0 {
		return f, fmt.Errorf("metrics of %s say nothing of goroutines and memory", s.name)
	}
	proc := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			f.Resident = n >> 10
		case "Threads":
			f.Threads = n
		}
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return f, err
	}
	f.Descriptors = len(open)
	f.Disk, err = sizeOf(filepath.Join(c.dir, s.name))
	return f, err
}

// sizeOf is what the files below a folder take, in MiB.
func sizeOf(folder string) (int, error) {
	total := int64(0)
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file may go meanwhile
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return int(total >> 20), err
}
