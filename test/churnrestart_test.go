package test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/test/churn"
)

var churnRestarts = flag.Duration("churn.restarts", 0, "how long a cluster on nodes of kwok changes in all ways while kanzen is restarted; 0: not at all")

// TestChurnRestarts lets Deployments roll and scale, Jobs run, namespaces and definitions come and go, while the server is ended in
// order, killed, and ended in order again. Then everything must come to rest: what was asked for is there and nothing else, informers hold what
// a list says, and the server has no more watches and goroutines than before.
func TestChurnRestarts(t *testing.T) {
	if *churnRestarts == 0 {
		t.Skip("run with -churn.restarts=10m")
	}
	m := onKanzen(t, "kube-controller-manager --node-monitor-grace-period=200s", "kube-controller-manager --kube-api-qps=200", "kube-controller-manager --kube-api-burst=400")
	changes, err := churn.New(m.config, func(what string) { t.Error(what) })
	must(t, err)
	c := &churning{machines: m, changes: changes}
	defer func() {
		if t.Failed() {
			t.Log(m.said())
		}
	}()
	m.nodes(20)
	changes.Deployments()
	c.settle(t)
	before := c.held()
	pods := c.informer(t)

	ctx, stop := context.WithTimeout(t.Context(), *churnRestarts)
	defer stop()
	var wg sync.WaitGroup
	for n, f := range []func(context.Context, int){changes.Roll, changes.Job, changes.Namespace, changes.Namespace, changes.Definition} {
		wg.Go(func() {
			for round := n * 100000; ctx.Err() == nil; round++ {
				f(ctx, round)
			}
		})
	}
	var down []time.Time
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		churn.Pause(ctx, *churnRestarts/4)
		down, c.before = append(down, time.Now()), append(c.before, m.server)
		m.restart(s)
		t.Logf("%v: ready again after %v", s, time.Since(down[len(down)-1]).Round(time.Millisecond))
	}
	wg.Wait()
	t.Logf("done: %v", changes.Counts())
	began := time.Now()
	c.settle(t)
	t.Logf("at rest %v after the end", time.Since(began).Round(time.Second))
	pods.equal(t, m)
	within(t, 3*time.Minute, "no more watches and goroutines than before", func(context.Context) bool {
		after := c.held()
		return after.watches <= before.watches+10 && after.goroutines <= before.goroutines+before.goroutines/2
	})
	t.Logf("before: %+v, after: %+v", before, c.held())
	for _, p := range m.programs {
		for _, line := range complaints(p.stderr.String(), down) {
			t.Logf("%s, away from restarts: %s", filepath.Base(p.cmd.Args[3]), line)
		}
	}
	for _, k := range append(c.before, m.server) {
		for line := range strings.Lines(k.stderr.String()) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
				t.Errorf("kanzen said %s", line)
			}
		}
	}
}

// churning is a cluster that changes.
type churning struct {
	*machines
	before  []*kanzen // that were ended
	changes *churn.Cluster
}

// settle waits until there is what was asked for and nothing else.
func (c *churning) settle(t *testing.T) {
	t.Helper()
	missing := ""
	t.Cleanup(func() {
		if t.Failed() && missing != "" {
			t.Logf("not at rest: %s", missing)
		}
	})
	within(t, 5*time.Minute, "everything comes to rest", func(ctx context.Context) bool {
		missing = c.changes.Restless(ctx)
		churn.Pause(ctx, 200*time.Millisecond)
		return missing == ""
	})
}

// held is what the server holds.
type held struct {
	goroutines, watches int
	memory              int64 // MiB
}

var (
	goroutines = regexp.MustCompile(`(?m)^go_goroutines (\S+)`)
	watching   = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\S+)`)
)

func (c *churning) held() (h held) {
	c.t.Helper()
	text, err := c.k.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(c.t.Context())
	must(c.t, err)
	if f := goroutines.FindStringSubmatch(string(text)); f != nil {
		h.goroutines = int(number(f[1]))
	}
	for _, f := range watching.FindAllStringSubmatch(string(text), -1) {
		h.watches += int(number(f[1]))
	}
	_, memory := c.usage()
	h.memory = memory >> 20
	return h
}

// mirror is an informer's store of pods.
type mirror struct{ store cache.Store }

func (c *churning) informer(t *testing.T) mirror {
	f := informers.NewSharedInformerFactory(c.k, 0)
	i := f.Core().V1().Pods().Informer()
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	return mirror{i.GetStore()}
}

// equal waits until the store holds what the server lists.
func (i mirror) equal(t *testing.T, m *machines) {
	t.Helper()
	within(t, time.Minute, "the informer holds what is there", func(ctx context.Context) bool {
		list, err := m.k.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		is, want := map[string]string{}, map[string]string{}
		for _, p := range list.Items {
			want[p.Namespace+"/"+p.Name] = p.ResourceVersion
		}
		for _, o := range i.store.List() {
			p := o.(*corev1.Pod)
			is[p.Namespace+"/"+p.Name] = p.ResourceVersion
		}
		return maps.Equal(is, want)
	})
}

var (
	complaint = regexp.MustCompile(`^([EWF])\d{4} (\d\d:\d\d:\d\d)\S* +\d+ (.*)`)
	differing = regexp.MustCompile(`event=.*|\S*[0-9#]\S*`)
)

// complaints are the errors and warnings of a log in klog's form, that are not of the time around a restart, with how often each came.
// What differs from one to the next is left out.
func complaints(log string, down []time.Time) []string {
	times := map[string]int{}
	for line := range strings.Lines(log) {
		f := complaint.FindStringSubmatch(strings.TrimSpace(line))
		if f == nil {
			continue
		}
		near := slices.ContainsFunc(down, func(d time.Time) bool {
			at, err := time.ParseInLocation("2006-01-02 15:04:05", d.Format("2006-01-02 ")+f[2], d.Location())
			return err == nil && at.After(d.Add(-2*time.Second)) && at.Before(d.Add(45*time.Second))
		})
		if !near {
			times[f[1]+" "+differing.ReplaceAllString(f[3], "#")]++
		}
	}
	var out []string
	for line, n := range times {
		out = append(out, fmt.Sprintf("%d times %.300s", n, line))
	}
	slices.Sort(out)
	return out
}
