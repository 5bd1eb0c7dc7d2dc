package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/test/evidence"
)

var errCompacted = rpctypes.ErrCompacted

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func registerName(era int64, n int) string { return fmt.Sprintf("register-%d-%d", era, n) }

// report is what a run says.
type report struct {
	Seed         uint64         `json:"seed"`
	Length       string         `json:"length"`
	Missing      string         `json:"missing,omitempty"` // what the machine does not let a run do
	Did          counts         `json:"did"`               // what was broken
	Used         map[string]int `json:"used"`              // what users did
	Starts       map[string]int `json:"starts"`            // of programs
	Keys         int            `json:"keys"`              // of etcd, in the end
	Kinds        int            `json:"kinds"`
	Judged       int            `json:"judged"`       // operations on registers
	Acknowledged int            `json:"acknowledged"` // creations and deletions
	Events       int            `json:"events"`       // at informers and watches
	Checks       []outcomeOf    `json:"checks"`
	Figures      []measured     `json:"figures"`
	Etcd         []etcdMeasured `json:"etcd"`
}

// outcomeOf is how a check ended.
type outcomeOf struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
}

// measured are the figures of a server at a rest.
type measured struct {
	Moment string `json:"moment"`
	Server string `json:"server"`
	figures
}

// etcdMeasured are those of etcd, in MiB.
type etcdMeasured struct {
	Moment   string `json:"moment"`
	InUse    int    `json:"inUse"`
	Size     int    `json:"size"`
	Revision int64  `json:"revision"`
}

// writeReport writes report.json, and evidence if that was asked for.
func (s *soak) writeReport(took time.Duration) {
	t, r := s.t, &s.report
	r.Used, r.Kinds, r.Starts = s.allCounts(), len(s.kinds), map[string]int{}
	for name, p := range s.programs {
		p.mu.Lock()
		r.Starts[name] = p.starts
		p.mu.Unlock()
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.out, "report.json"), append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.out, "kubectl.log"), []byte(strings.Join(s.people.said, "\n")), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s\n%s", text, r.text())
	for _, n := range append(s.c.servers[:], s.c.etcds[:]...) {
		if text, err := os.ReadFile(n.log.Name()); err == nil {
			_ = os.WriteFile(filepath.Join(s.out, n.name+".log"), text, 0o644)
		}
	}
	if *soakEvidence == "" || *soakFor < time.Hour {
		return // what runs for less says less
	}
	suite, err := evidence.Now()
	if err != nil {
		t.Error(err)
		return
	}
	of := evidence.Server{Seconds: int(took.Seconds())}
	for _, c := range r.Checks {
		if c.Passed {
			of.Passed++
			continue
		}
		of.Failed++
		of.Failing = append(of.Failing, c.Name)
	}
	if v, err := s.clients[0].Discovery().ServerVersion(); err == nil {
		of.Version = v.GitVersion
	}
	suite.Name, suite.Module, suite.Packages, suite.Of = "soak", "kanzen's own", []string{"test/chaos"}, 1
	suite.Servers[evidence.Kanzen] = of
	kept := evidence.Run{Title: "Soak", Command: fmt.Sprintf("make soak DURATION=%s SEED=%d", r.Length, r.Seed), Text: r.text(), Suites: []evidence.Suite{suite}}
	if err := kept.Write(*soakEvidence); err != nil {
		t.Error(err)
	}
}

// text is the report as a page of evidence has it.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "uses a whole cluster for %s while its parts break ([soak.md](soak.md)): three servers on three members of etcd, Kubernetes' controllers and\nscheduler, simulated nodes, an operator, kubectl. A check counts as a test.", r.Length)
	if r.Missing != "" {
		fmt.Fprintf(&b, " On this machine %s.", r.Missing)
	}
	fmt.Fprintf(&b, "\n\n%d operations were judged, %d creations and deletions were acknowledged, %d informers and watches had %d events; %d kinds, and %d keys of etcd in\nthe end.\n",
		r.Judged, r.Acknowledged, 3*(r.Kinds+1), r.Events, r.Kinds, r.Keys)
	fmt.Fprintf(&b, "\n- broken: %s\n- done by users: %s\n- starts of programs: %s\n", listed(r.Did), listed(r.Used), listed(r.Starts))
	for _, c := range r.Checks {
		if !c.Passed {
			fmt.Fprintf(&b, "- failed: %s\n", c.Name)
		}
	}
	b.WriteString("\n| at rest | server | process | memory, MiB | heap, MiB | goroutines | descriptors | threads | disk, MiB | series | watches |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	order := map[string]int{}
	for _, f := range r.Figures {
		name := f.Server + " " + fmt.Sprint(f.Process)
		if order[name] == 0 {
			for other := range order {
				if strings.HasPrefix(other, f.Server+" ") {
					order[name] = max(order[name], order[other])
				}
			}
			order[name]++
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", f.Moment, f.Server, order[name], f.Resident, f.Heap, f.Goroutines, f.Descriptors, f.Threads, f.Disk, f.Series, f.Watches)
	}
	var sizes []string
	for _, e := range r.Etcd {
		sizes = append(sizes, fmt.Sprintf("%s %d of %d MiB at revision %d", e.Moment, e.InUse, e.Size, e.Revision))
	}
	fmt.Fprintf(&b, "\nDatabase of etcd in use: %s.", strings.Join(sizes, ", "))
	return b.String()
}

// listed are counts in their order.
func listed[M ~map[string]int](m M) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(out, ", ")
}
