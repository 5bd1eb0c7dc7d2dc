package hostile

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// row is a hostile request, and what it may take.
type row struct {
	name string
	// before is put to the server first and not measured.
	before []request
	// settles says that kube-apiserver takes a while to know of what was before.
	settles bool
	request
	// codes are those of the answers that are right; none: any but 0 and 5xx.
	codes []int
	// cpu and memory (MiB, above what the server took before) bound the request;
	// the time that passes is bounded by patience alone, since that hangs on who
	// else is at work. The bounds are some five times what was measured.
	cpu    time.Duration
	memory int
}

// figures are what a row took.
type figures struct {
	code      int
	said      string
	cpu, took time.Duration
	memory    int
}

func (f figures) String() string {
	return fmt.Sprintf("%d, %.2f s, %d MB", f.code, f.cpu.Seconds(), f.memory)
}

func measure(t *testing.T, s *server, r row) figures {
	t.Helper()
	for _, b := range r.before {
		s.must(t, b)
	}
	if r.settles && s.name != "kanzen" {
		time.Sleep(3 * time.Second)
	}
	quiet(t, s)
	s.forget(t)
	before, begin := s.usage(t), time.Now()
	code, said := s.do(t.Context(), r.request)
	took := time.Since(begin)
	after := s.usage(t)
	if code == 0 && took > patience/2 {
		quiet(t, s) // it goes on
		after = s.usage(t)
	}
	return figures{code, said, after.cpu - before.cpu, took, max(0, after.peak-before.rss)}
}

// quiet waits until the server does nothing any more, for a minute at most.
func quiet(t *testing.T, s *server) {
	t.Helper()
	last := s.usage(t).cpu
	for range 300 {
		time.Sleep(200 * time.Millisecond)
		now := s.usage(t).cpu
		if now-last <= 2*tick {
			return
		}
		last = now
	}
}

// right says whether an answer is one that the row may have.
func (r row) right(code int) bool {
	for _, c := range r.codes {
		if c == code {
			return true
		}
	}
	return len(r.codes) == 0 && code >= 200 && code < 500
}

func TestCost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("figures come from /proc")
	}
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	servers := []*server{kanzen(t)}
	if *withPeer {
		servers = append(servers, upstream(t))
	}
	lines := []string{"| request | kanzen | kube-apiserver |", "|---|---|---|"}
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			line := "| " + r.name
			for n, s := range servers {
				f := measure(t, s, r)
				line += " | " + f.String()
				t.Logf("%s: %v, in %v: %.200s", s.name, f, f.took.Round(time.Millisecond), f.said)
				if n > 0 {
					continue // for comparison
				}
				if !r.right(f.code) {
					t.Errorf("answered with %d: %.300s", f.code, f.said)
				}
				if f.cpu > r.cpu || f.memory > r.memory {
					t.Errorf("took %v of the processor, %d MB; it may take %v, %d MB", f.cpu, f.memory, r.cpu, r.memory)
				}
			}
			lines = append(lines, line+" |")
		})
	}
	if *table != "" {
		if err := os.WriteFile(*table, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
