package goldens

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// least is how many of a thousand comparisons must agree.
var least = map[string]int{
	"code": 999, "reason": 999, "causes": 999, "object": 997, "table": 990, "managed": 990, "warnings": 999, "type": 999,
}

// TestGoldens asks everything that was asked of kube-apiserver. GOLDENS names
// a part of the ids of the cases to ask.
func TestGoldens(t *testing.T) {
	all, err := readCases("testdata/cases.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	only := os.Getenv("GOLDENS")
	var cases []*Case
	for _, c := range all {
		if strings.Contains(c.ID, only) {
			cases = append(cases, c)
		}
	}
	s := kanzentest.Start(t, kanzentest.Controllers())
	admin := &user.DefaultInfo{Name: "admin", UID: "admin", Groups: []string{"system:masters", "system:authenticated"}}
	index, _ := loadIndex()
	r := &Runner{
		C: &Client{URL: "https://kanzen.in-process", HTTP: &http.Client{Transport: s.Transport(admin), Timeout: time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}},
		Bases: index, Log: t.Logf,
	}
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
			t.Logf("%s\n  %s %s\n%s", c.ID, c.Method, c.Path, b.String())
		}
	})
	for _, part := range dims {
		t.Logf("%-8s %d of %d agree", part, agree[part], asked[part])
		if only == "" && agree[part]*1000 < asked[part]*least[part] {
			t.Errorf("%s: %d of %d agree, want %d of a thousand", part, agree[part], asked[part], least[part])
		}
	}
}
