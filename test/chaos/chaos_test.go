package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

var (
	length = flag.Duration("chaos", time.Minute, "how long to break things")
	pace   = flag.Duration("chaos.pace", 2*time.Second, "the longest time between what is broken and what is broken next")
	fleet  = flag.Int("chaos.planes", 0, "how many planes TestChaosFleet uses meanwhile; 0: it is not run")
	spread = flag.Int("chaos.etcds", 0, "in how many further etcds, of one member each, these planes lie as well")
)

// binary is the program under test: that of the environment, or built now.
func binary(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("KANZEN"); p != "" {
		return p
	}
	out := filepath.Join(t.TempDir(), "kanzen")
	cmd := exec.Command("go", "build", "-o", out, "./cmd/kanzen")
	cmd.Dir = filepath.Join("..", "..")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

// counts is how often something was done.
type counts map[string]int

func TestChaos(t *testing.T) { chaos(t, []*tenant{{use: busy}}) }

// TestChaosPlane does the same to a plane, which one of the servers has at a time, and which moves as well.
func TestChaosPlane(t *testing.T) { chaos(t, []*tenant{{use: busy, plane: "team"}}) }

// TestChaosFleet does the same to many planes at once, each with clients of its own.
func TestChaosFleet(t *testing.T) {
	if *fleet == 0 {
		t.Skip("no -chaos.planes")
	}
	var tenants []*tenant
	for n := range *fleet {
		tenants = append(tenants, &tenant{use: little, plane: fmt.Sprint("p", n), first: n % members})
	}
	chaosOn(t, tenants, options{etcds: *spread})
	var silences []time.Duration
	for _, of := range tenants {
		silences = append(silences, of.load.silence())
	}
	slices.Sort(silences)
	longest := silences[len(silences)-1]
	t.Logf("the longest that a plane gave no answer: %v; half of the planes at most %v, nine of ten %v", longest.Round(time.Millisecond),
		silences[len(silences)/2].Round(time.Millisecond), silences[len(silences)*9/10].Round(time.Millisecond))
	if longest > time.Minute {
		t.Error("that is too long")
	}
}

// chaos is chaosOn three members of etcd and three servers.
func chaos(t *testing.T, tenants []*tenant) { chaosOn(t, tenants, options{}) }

// chaosOn uses the servers, or planes of them, while things break.
func chaosOn(t *testing.T, tenants []*tenant, o options) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, of := range tenants {
		if of.plane != "" {
			o.planes = append(o.planes, of.plane)
		}
	}
	c := newCluster(t, binary(t), o)
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	working, stopWorking := context.WithCancel(t.Context())
	defer stopWorking()
	each(tenants, func(of *tenant) { of.begin(watching, t, c) })
	if t.Failed() {
		return
	}
	for n, of := range tenants {
		of.work(working, seed+uint64(n))
	}
	done := c.breakThings(t, rand.New(rand.NewPCG(seed, workers)), time.Now().Add(*length))
	for _, s := range c.servers {
		c.await(t, s)
	}
	time.Sleep(time.Second) // some work while all is well
	stopWorking()

	// All servers have the same, and the watches come to it.
	deadline := time.Now().Add(60*time.Second + time.Duration(len(tenants))*time.Second/4)
	each(tenants, func(of *tenant) { of.settle(t, c, deadline) })
	stopWatching()
	sum := counts{}
	for _, of := range tenants {
		of.judge(t, sum)
	}
	t.Logf("%v: %v", *length, done)
	t.Logf("%d planes: %v", len(c.planes), sum)
	if sum["operations that succeeded"] < int(length.Seconds()) {
		t.Error("so few operations prove little")
	}
}

// breakThings breaks one thing after another until a time, and mends each.
func (c *cluster) breakThings(t *testing.T, r *rand.Rand, until time.Time) counts {
	did := counts{}
	some := func(limit time.Duration) { time.Sleep(200*time.Millisecond + time.Duration(r.Int64N(int64(limit)))) }
	for time.Now().Before(until) && !t.Failed() {
		nodes, kind := append(c.etcds[:], c.others...), "etcd"
		if r.IntN(2) == 0 {
			nodes, kind = c.servers[:], "server"
		}
		n := nodes[r.IntN(len(nodes))]
		switch what := r.IntN(10); {
		case what < 3:
			did["kills of a "+kind]++
			n.end(syscall.SIGKILL)
			some(2 * time.Second)
			n.start(t)
		case what < 6:
			did["pauses of a "+kind]++
			n.signal(syscall.SIGSTOP)
			some(4 * time.Second)
			n.signal(syscall.SIGCONT)
		case what < 9 && c.partitions:
			did["partitions of a "+kind]++
			n.cut(t, true)
			some(4 * time.Second)
			n.cut(t, false)
		case what == 9 && len(c.planes) > 0 && r.IntN(4) > 0:
			did["moves of a plane"]++
			c.move(t, c.planes[r.IntN(len(c.planes))], c.servers[r.IntN(members)])
		case what == 9:
			did["rolling restarts of all "+kind+"s"]++
			for _, n := range nodes {
				n.end(syscall.SIGTERM)
				n.start(t)
				if kind == "server" {
					c.await(t, n)
				}
				some(time.Second)
			}
		}
		some(*pace)
	}
	return did
}
