package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// figures are those of docs/why.md: what the page says, and the pattern that finds the numbers in the page that measured them.
var figures = []struct{ says, source, pattern string }{
	{"of its own in %s ms, with", "testing.md", "`testkit.Start` .*\\| (\\d+) ms;"},
	{"%s tests that start a server each took %s s with `kanzentest`, and %s with envtest and kube-apiserver", "testing.md",
		"\\| (\\d+) tests in a row .*\\| `kanzentest` ([\\d.]+) s, .* with kube-apiserver (.*) \\|"},
	{"adds some %s modules to a go.mod", "testing.md", `go.mod grows by some (\d+) modules`},
	{"takes %s asleep and %s awake", "benchmarks/planes.md", `(?s)an empty plane, asleep \| ([\d.]+ KiB),.*an empty plane, awake \| ([\d.]+ MiB) `},
	{"the median of a request went from %s to %s ms under a flood of writes ", "benchmarks/planes.md", `(?s)a request to one plane, alone \| median ([\d.]+ ms).*flood another plane with [a-z, ]* \| median [\d.]+, [\d.]+, ([\d.]+), [\d.]+, [\d.]+ ms;`},
	{"A new data directory takes %s with etcd and %s with Pebble", "engines.md", `a new data directory \| (\d+ MB) \| (\d+ MB) `},
	{"beyond etcd's %s ", "engines.md", `2 GiB unless set, (\d+ GiB) at most`},
	{"the first list of %s ConfigMaps takes %s and %s.", "engines.md", `(?s)A server with ([\d,]+) ConfigMaps .* takes ([\d.]+ s) and ([\d.]+ GiB) `},
	{"a Deployment of %s replicas rolls to another image | %s | %s |", "beside-kubernetes.md",
		`(?s)a Deployment of (\d+) replicas becomes.*it rolls to another image \| ([\d.]+ s) \| ([\d.]+ s) `},
	{"The largest had %s simulated nodes", "scale.md", `checked with ([\d,]+) simulated nodes`},
	{"memory with %s pods", "benchmarks/results.md", `resident memory, (\d+) pods`},
}

// TestWhy holds each number of docs/why.md against the page or the file that it is from.
func TestWhy(t *testing.T) {
	page := readDoc(t, "why.md")
	if n := len(strings.Fields(strings.ReplaceAll(page, "|", " "))); n > 900 {
		t.Errorf("the page has %d words; it is to be read in five minutes", n)
	}
	var says []string
	for _, f := range figures {
		found := regexp.MustCompile(f.pattern).FindStringSubmatch(readDoc(t, f.source))
		if found == nil {
			t.Errorf("docs/%s does not have %s", f.source, f.pattern)
			continue
		}
		numbers := make([]any, 0, len(found)-1)
		for _, n := range found[1:] {
			numbers = append(numbers, n)
		}
		says = append(says, fmt.Sprintf(f.says, numbers...))
	}
	page = plain(page)
	rest := page
	for _, want := range append(says, ofRuns(t)...) {
		if want = plain(want); !strings.Contains(page, want) {
			t.Errorf("docs/why.md does not say %q", want)
		}
		rest = strings.ReplaceAll(rest, want, "")
	}
	rest = notFigures.ReplaceAllString(rest, "")
	if unproven := regexp.MustCompile(`.{0,40}\d.{0,40}`).FindAllString(rest, -1); len(unproven) > 0 {
		t.Errorf("these figures of docs/why.md have no source here: %q", unproven)
	}
}

// notFigures is what has digits and states no figure: code, the destinations of links, versions of Kubernetes, the number k3s has in its name.
var notFigures = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\([^)]*\\)|\\b1\\.3\\d\\b|\\bk3s\\b|\\| 1 \\|")

// plain has a text in one line, with 3,000 as 3000: pages write both.
func plain(text string) string {
	return regexp.MustCompile(`(\d),(\d{3})`).ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1$2")
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ofRuns is what the page says of the runs in docs/evidence.
func ofRuns(t *testing.T) (says []string) {
	t.Helper()
	leftOut := 0
	for _, s := range readRun(t, "conformance").Suites {
		leftOut += len(s.LeftOut)
	}
	for begin, name := range map[string]string{
		fmt.Sprintf("Kubernetes' conformance on two real nodes: passed, failed (%d left out)", leftOut): "conformance",
		"kubectl's own tests: passed, failed": "test-cmd",
		"tests of gateway-api, controller-runtime, karpenter, cluster-api, gatekeeper, kueue, cert-manager and external-secrets: passed, failed": "others",
	} {
		run := readRun(t, name)
		says = append(says, fmt.Sprintf("| %s | %s | %s |", begin, counted(run, Kanzen), counted(run, Peer)))
	}
	text := strings.ReplaceAll(readRun(t, "conformance").Text, "\n", " ")
	taken := regexp.MustCompile(`kanzen took (\d+ s) .* at most (\d+ MiB) .* kube-apiserver took (\d+ s) .* at most (\d+ MiB) `).FindStringSubmatch(text)
	if taken == nil {
		t.Fatalf("the run of conformance does not say what it took: %s", text)
	}
	return append(says,
		fmt.Sprintf("| processor time of the server in that run | %s | %s |", taken[1], taken[3]),
		fmt.Sprintf("| its memory, at most | %s | %s |", taken[2], taken[4]))
}

func readRun(t *testing.T, name string) Run {
	t.Helper()
	run, err := Read(filepath.Join(docs, "evidence", name+".json"))
	if err != nil || len(run.Suites) == 0 {
		t.Fatalf("%s: %d suites, %v", name, len(run.Suites), err)
	}
	return run
}

// counted is how many tests of a run passed and failed on a server.
func counted(run Run, server string) string {
	passed, failed := 0, 0
	for _, s := range run.Suites {
		passed, failed = passed+s.Servers[server].Passed, failed+s.Servers[server].Failed
	}
	return fmt.Sprintf("%d, %d", passed, failed)
}

// TestWhyIsModest holds what docs/why.md says about the benchmark in words against its figures.
func TestWhyIsModest(t *testing.T) {
	page, results := readDoc(t, "why.md"), readDoc(t, "benchmarks/results.md")
	for _, says := range []string{"| processor time of most requests | less than a third | 1 |", "| memory with 3,000 pods | less than half | 1 |"} {
		if !strings.Contains(page, says) {
			t.Errorf("docs/why.md does not say %q", says)
		}
	}
	// A first list after a restart reads and decrypts what kube-apiserver has read before it was ready, twenty times later.
	lazy := regexp.MustCompile(`(?m)^\|.*after a restart, the first time.*\n`)
	requests := factors(t, lazy.ReplaceAllString(results, ""), "Processor time per request", "")
	slices.Sort(requests)
	if len(requests) < 10 || requests[0] < 1 || requests[len(requests)/4] < 3 {
		t.Errorf("kanzen needs less processor time by these factors: %v", requests)
	}
	if memory := factors(t, results, "Start and memory", "pods"); len(memory) != 1 || memory[0] < 2 {
		t.Errorf("with 3,000 pods kanzen needs less memory by these factors: %v", memory)
	}
}

var factor = regexp.MustCompile(`\| +([\d.]+)× \(`)

// factors reads by how much kanzen is better, from the rows of a section that have a word.
func factors(t *testing.T, results, section, word string) (out []float64) {
	t.Helper()
	_, text, found := strings.Cut(results, "### "+section+"\n")
	if !found {
		t.Fatalf("the benchmark has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	for line := range strings.Lines(text) {
		if m := factor.FindStringSubmatch(line); m != nil && strings.Contains(line, word) {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}
