package goldens

import (
	"bytes"
	"hash/fnv"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// least is how many of a thousand comparisons must agree; one may always differ.
var least = map[string]int{
	"code": 999, "reason": 999, "causes": 999, "object": 997, "table": 990, "managed": 990, "warnings": 999, "type": 999, "words": 970,
}

// set is cases that were asked of a kube-apiserver with some flags. Its name is that of its files in testdata.
type set struct {
	name  string
	flags []string
	every int // asks the cases of one base of so many, unless GOLDENS names some
}

var sets = []set{{"default", nil, 1}, {"emulated-1.36", []string{"--emulated-version=1.36"}, 8}}

// cases reads the set's cases, and the marks of what kube-apiserver said.
func (s *set) cases(t *testing.T) []*Case {
	t.Helper()
	cases, err := readCases("testdata/" + s.name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func (s *set) marks() string { return "testdata/" + s.name + ".words.gz" }

// TestRecordWords asks kube-apiserver everything, and writes the marks of what it says.
func TestRecordWords(t *testing.T) {
	if !*peer.Recording {
		t.Skip("run with -record")
	}
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) { s.record(t) })
	}
}

func (s *set) record(t *testing.T) {
	c := peer.Start(t, s.flags...)
	transport, err := rest.TransportFor(c)
	if err != nil {
		t.Fatal(err)
	}
	index, _ := loadIndex()
	r := &Runner{Bases: index, Log: t.Logf, C: &Client{URL: c.Host, HTTP: &http.Client{Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}}
	var mu sync.Mutex
	marks := map[string]string{}
	r.run(s.cases(t), 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		if got.Words != "" {
			marks[c.ID] = got.Words
		}
	})
	if err := writeMarks(s.marks(), marks); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d answers with words", len(marks))
}

// TestGoldens asks everything that was asked of kube-apiserver. GOLDENS names
// a part of the ids of the cases to ask.
func TestGoldens(t *testing.T) {
	t.Parallel()
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) { s.ask(t) })
	}
}

// asks says whether the cases of a base are among those that are asked: to set up a base takes longer than to ask a case.
func (s *set) asks(base string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(base))
	return h.Sum32()%uint32(s.every) == 0
}

func (s *set) ask(t *testing.T) {
	marks, err := readMarks(s.marks())
	if err != nil {
		t.Fatal(err)
	}
	only := os.Getenv("GOLDENS")
	var cases []*Case
	for _, c := range s.cases(t) {
		c.Expect.Words = marks[c.ID]
		if only == "" && s.asks(c.Base) || only != "" && strings.Contains(c.ID, only) {
			cases = append(cases, c)
		}
	}
	r := runner(t, s.flags...)
	var mu sync.Mutex
	agree, asked := map[string]int{}, map[string]int{}
	shown := 0
	r.run(cases, 8, func(c *Case, got Expect) {
		mu.Lock()
		defer mu.Unlock()
		same := true
		for part, ok := range verdict(c.Expect, got) {
			asked[part]++
			if ok {
				agree[part]++
			}
			same = same && ok
		}
		if !same && (testing.Verbose() || shown < 40) {
			shown++
			var b bytes.Buffer
			diff(&b, "  ", plain(c.Expect), plain(got))
			t.Logf("%s\n  %s %s\n%s%s", c.ID, c.Method, c.Path, b.String(), strings.Join(got.said, "\n"))
		}
	})
	for _, part := range dims {
		t.Logf("%-8s %d of %d agree", part, agree[part], asked[part])
		if only == "" && agree[part]+1 < asked[part] && agree[part]*1000 < asked[part]*least[part] {
			t.Errorf("%s: %d of %d agree, want %d of a thousand", part, agree[part], asked[part], least[part])
		}
	}
}

// patience is how long an answer may take. One of those recorded, a watch that ends when its client leaves, takes all of it.
const patience = 15 * time.Second

// runner asks a new server with some flags.
func runner(t *testing.T, flags ...string) *Runner {
	server := kanzentest.Start(t, kanzentest.Controllers(), kanzentest.Flags(flags...))
	admin := &user.DefaultInfo{Name: "admin", UID: "admin", Groups: []string{"system:masters", "system:authenticated"}}
	index, _ := loadIndex()
	return &Runner{
		C: &Client{URL: "https://kanzen.in-process", HTTP: &http.Client{Transport: server.Transport(admin), Timeout: patience,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}},
		Bases: index, Log: t.Logf,
	}
}
