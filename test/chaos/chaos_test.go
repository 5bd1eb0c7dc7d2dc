package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var length = flag.Duration("chaos", time.Minute, "how long to break things")

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

func TestChaos(t *testing.T) { chaos(t, "") }

// TestChaosPlane does the same to a plane, which one of the servers has at a time, and which moves as well.
func TestChaosPlane(t *testing.T) { chaos(t, "team") }

// chaos uses the servers, or a plane of them, while things break.
func chaos(t *testing.T, plane string) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCluster(t, binary(t), options{plane: plane})
	l := &load{began: time.Now(), slow: 20 * time.Millisecond}
	var watchers []*watcher
	for n, s := range c.servers {
		var err error
		if l.clients[n], err = c.client(s); err != nil {
			t.Fatal(err)
		}
	}
	list, err := l.clients[0].CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	var watches sync.WaitGroup
	for n, s := range c.servers {
		w := &watcher{server: s.name}
		watchers = append(watchers, w)
		watches.Go(func() { w.run(watching, l.clients[n], list.ResourceVersion) })
	}
	l.prepare(t)
	working, stopWorking := context.WithCancel(t.Context())
	defer stopWorking()
	var work sync.WaitGroup
	for n := range workers {
		work.Go(func() { l.work(working, n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	done := c.breakThings(t, rand.New(rand.NewPCG(seed, workers)), time.Now().Add(*length))
	for _, s := range c.servers {
		c.await(t, s)
	}
	time.Sleep(time.Second) // some work while all is well
	stopWorking()
	work.Wait()

	// All servers have the same, and the watches come to it.
	head := c.equalLists(t, l)
	deadline := time.Now().Add(60 * time.Second)
	mark(t, l)
	for time.Now().Before(deadline) && !t.Failed() {
		time.Sleep(250 * time.Millisecond)
		if arrived(watchers) {
			break
		}
	}
	stopWatching()
	watches.Wait()
	changes := equalWatches(t, watchers)
	judged := judge(t, l.operations, changes, 5*time.Minute)

	outcomes, resumed := map[outcome]int{}, 0
	for _, op := range l.operations {
		outcomes[op.outcome]++
	}
	for _, w := range watchers {
		resumed += w.resumed
	}
	t.Logf("%v: %v", *length, done)
	t.Logf("%d operations: %d succeeded, %d conflicts, %d without an answer; %d judged; %d events at each of %d watches, resumed %d times; revision %s",
		len(l.operations), outcomes[succeeded], outcomes[conflicted], outcomes[unknown], judged, len(changes), len(watchers), resumed, head)
	if outcomes[succeeded] < int(length.Seconds()) {
		t.Error("so few operations prove little")
	}
}

// marker is the name of an object that the watches are to come to.
const marker = "marker"

// mark writes an object after everything else.
func mark(t *testing.T, l *load) {
	t.Helper()
	c := l.clients[0].CoreV1().ConfigMaps("default")
	obj, err := c.Get(t.Context(), l.name(0), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj.ObjectMeta = metav1.ObjectMeta{Name: marker}
	if _, err := c.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// arrived says that all watchers have seen the marker. They are read while they run: what counts is read after their end.
func arrived(watchers []*watcher) bool {
	for _, w := range watchers {
		if !w.marked.Load() {
			return false
		}
	}
	return true
}

// equalLists compares the lists of all servers, and returns their revision.
func (c *cluster) equalLists(t *testing.T, l *load) string {
	t.Helper()
	var first, head string
	for n, client := range l.clients {
		list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, m := range list.Items {
			text += fmt.Sprintf("%s %s %s %s\n", m.Name, m.UID, m.ResourceVersion, m.Data["value"])
		}
		if n == 0 {
			first, head = text, list.ResourceVersion
		} else if text != first {
			t.Errorf("%s lists\n%s%s lists\n%s", c.servers[0].name, first, c.servers[n].name, text)
		}
	}
	return head
}

// breakThings breaks one thing after another until a time, and mends each.
func (c *cluster) breakThings(t *testing.T, r *rand.Rand, until time.Time) counts {
	did := counts{}
	some := func(limit time.Duration) { time.Sleep(200*time.Millisecond + time.Duration(r.Int64N(int64(limit)))) }
	for time.Now().Before(until) && !t.Failed() {
		nodes, kind := &c.etcds, "etcd"
		if r.IntN(2) == 0 {
			nodes, kind = &c.servers, "server"
		}
		n := nodes[r.IntN(members)]
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
		case what == 9 && c.plane != "" && r.IntN(4) > 0:
			did["moves of the plane"]++
			c.move(t, c.servers[r.IntN(members)])
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
		some(2 * time.Second)
	}
	return did
}
