package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// use is how much a tenant does.
type use struct {
	workers int
	objects int           // that the workers read and write
	slow    time.Duration // the longest pause between two requests of a worker
	watches int           // each through another server
}

var (
	busy = use{workers, registers, 20 * time.Millisecond, members}
	// little is what each of a thousand does.
	little = use{members, 1, 10 * time.Second, 1}
)

// tenant is a control plane that is used, and what was seen of it.
type tenant struct {
	use
	plane    string // empty: the servers' own
	first    int    // the server that is asked first: it has the plane until something breaks
	load     *load
	watchers []*watcher

	working, watching sync.WaitGroup
}

// begin makes what is used, and watches it until ctx ends.
func (of *tenant) begin(ctx context.Context, t *testing.T, c *cluster) {
	of.load = &load{began: time.Now(), objects: of.objects, slow: of.slow}
	for n, s := range c.servers {
		var err error
		if of.load.clients[n], err = c.client(s, of.plane); err != nil {
			t.Error(err)
			return
		}
	}
	list, err := of.list(t.Context(), of.first)
	if err != nil {
		t.Errorf("%s: %v", of.plane, err)
		return
	}
	for n := range of.watches {
		at := (of.first + n) % members
		w := &watcher{server: c.servers[at].name}
		of.watchers = append(of.watchers, w)
		of.watching.Go(func() { w.run(ctx, of.load.clients[at], list.ResourceVersion) })
	}
	if err := of.load.prepare(t.Context()); err != nil {
		t.Errorf("%s: %v", of.plane, err)
	}
}

// list lists what is used at a server. A plane may have to be started for that, after others, so it is tried for some minutes.
func (of *tenant) list(ctx context.Context, server int) (list *corev1.ConfigMapList, err error) {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		if list, err = of.load.clients[server].CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err == nil {
			return list, nil
		}
	}
	return nil, err
}

// work reads and writes until ctx ends.
func (of *tenant) work(ctx context.Context, seed uint64) {
	for n := range of.workers {
		of.working.Go(func() { of.load.work(ctx, n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
}

// settle waits for the workers' ends, compares the lists of all servers, and waits until the watches have come to what is written last.
func (of *tenant) settle(t *testing.T, c *cluster, deadline time.Time) {
	of.working.Wait()
	if err := of.equalLists(t, c); err != nil {
		t.Errorf("%s: %v", of.plane, err)
		return
	}
	if err := of.load.mark(t.Context()); err != nil {
		t.Errorf("%s: %v", of.plane, err)
		return
	}
	for time.Now().Before(deadline) && !arrived(of.watchers) {
		time.Sleep(250 * time.Millisecond)
	}
}

// equalLists compares the lists of all servers.
func (of *tenant) equalLists(t *testing.T, c *cluster) error {
	var first string
	for n := range of.load.clients {
		list, err := of.list(t.Context(), n)
		if err != nil {
			return err
		}
		text := ""
		for _, m := range list.Items {
			text += fmt.Sprintf("%s %s %s %s\n", m.Name, m.UID, m.ResourceVersion, m.Data["value"])
		}
		if n == 0 {
			first = text
		} else if text != first {
			t.Errorf("%s: %s lists\n%s%s lists\n%s", of.plane, c.servers[0].name, first, c.servers[n].name, text)
		}
	}
	return nil
}

// judge checks what was seen, once the watches have ended, and adds up how much that was.
func (of *tenant) judge(t *testing.T, sum counts) {
	t.Helper()
	of.watching.Wait()
	if !arrived(of.watchers) {
		t.Errorf("%s: a watch has not come to the end", of.plane)
	}
	changes := equalWatches(t, of.watchers)
	sum["operations judged"] += judge(t, of.load.operations, changes, 5*time.Minute)
	sum["events"] += len(changes) * len(of.watchers)
	for _, w := range of.watchers {
		sum["times that a watch resumed"] += w.resumed
	}
	for _, op := range of.load.operations {
		sum["operations that "+[...]string{"succeeded", "conflicted", "had no answer"}[op.outcome]]++
	}
}
