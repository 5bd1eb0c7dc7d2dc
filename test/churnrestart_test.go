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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
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
	c := &churning{machines: m, crds: dynamic.NewForConfigOrDie(m.config).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}), counts: map[string]int{}}
	defer func() {
		if t.Failed() {
			t.Log(m.said())
		}
	}()
	m.nodes(20)
	c.deployments()
	c.settle(t)
	before := c.held()
	pods := c.informer(t)

	ctx, stop := context.WithTimeout(t.Context(), *churnRestarts)
	defer stop()
	var wg sync.WaitGroup
	for n, f := range []func(context.Context, int){c.roll, c.job, c.namespace, c.namespace, c.definition} {
		wg.Go(func() {
			for round := n * 100000; ctx.Err() == nil; round++ {
				f(ctx, round)
			}
		})
	}
	var down []time.Time
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		pause(ctx, *churnRestarts/4)
		down, c.before = append(down, time.Now()), append(c.before, m.server)
		m.restart(s)
		t.Logf("%v: ready again after %v", s, time.Since(down[len(down)-1]).Round(time.Millisecond))
	}
	wg.Wait()
	t.Logf("done: %v", c.counts)
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
	before []*kanzen // that were ended
	crds   dynamic.ResourceInterface
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

const churnDeployments, churnReplicas = 10, 15

func (c *churning) did(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// again does something until it succeeds: the server may be away, and may have done it before it went. It gives up with a fault of the
// test when that lasts.
func (c *churning) again(what string, done func(error) bool, f func(ctx context.Context) error) {
	c.t.Helper()
	until := time.Now().Add(3 * time.Minute)
	for {
		err := f(c.t.Context())
		if err == nil || done != nil && done(err) {
			return
		}
		if time.Now().After(until) {
			c.t.Errorf("%s: for three minutes: %v", what, err)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (c *churning) deployments() {
	for n := range churnDeployments {
		labels := map[string]string{"app": fmt.Sprintf("d%02d", n)}
		_, err := c.k.AppsV1().Deployments("default").Create(c.t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: labels["app"]}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](churnReplicas), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels)}}, metav1.CreateOptions{})
		must(c.t, err)
	}
}

// roll rolls and scales a Deployment.
func (c *churning) roll(ctx context.Context, round int) {
	c.again("roll", nil, func(ctx context.Context) error {
		_, err := c.k.AppsV1().Deployments("default").Patch(ctx, fmt.Sprintf("d%02d", round%churnDeployments), types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, churnReplicas-round/churnDeployments%2*5, round), metav1.PatchOptions{})
		return err
	})
	c.did("rolls")
	pause(ctx, 2*time.Second)
}

// job runs a Job, which is gone some seconds after its end.
func (c *churning) job(ctx context.Context, round int) {
	name := fmt.Sprintf("job-%d", round)
	c.again("create a job", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.k.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](4), Parallelism: ptr.To[int32](2), TTLSecondsAfterFinished: ptr.To[int32](2), Template: jobTemplate(name)}}, metav1.CreateOptions{})
		return err
	})
	c.again("a job ends", apierrors.IsNotFound, func(ctx context.Context) error {
		j, err := c.k.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && j.Status.CompletionTime == nil {
			err = fmt.Errorf("job %s: %+v", name, j.Status)
		}
		return err
	})
	c.did("jobs")
}

// namespace fills a namespace, and deletes it while its pods start.
func (c *churning) namespace(ctx context.Context, round int) {
	name := fmt.Sprintf("ns-%d", round)
	c.again("create a namespace", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.k.CoreV1().Namespaces().Create(ctx, namespace(name), metav1.CreateOptions{})
		return err
	})
	labels := map[string]string{"app": "a"}
	c.again("create in a namespace", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.k.AppsV1().Deployments(name).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](5), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(labels)}}, metav1.CreateOptions{})
		return err
	})
	c.again("create a service", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.k.CoreV1().Services(name).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		return err
	})
	pause(ctx, time.Duration(round%4)*time.Second)
	c.again("a namespace goes", apierrors.IsNotFound, func(ctx context.Context) error {
		if err := c.k.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		ns, err := c.k.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("namespace %s: %+v", name, ns.Status)
		}
		return err
	})
	c.did("namespaces")
}

// definition makes a definition and objects of it, and removes it with them.
func (c *churning) definition(ctx context.Context, round int) {
	d := gadgetDefinition()
	group := fmt.Sprintf("g%d.example.org", round)
	name := "gadgets." + group
	d.SetName(name)
	must(c.t, unstructured.SetNestedField(d.Object, group, "spec", "group"))
	c.again("create a definition", apierrors.IsAlreadyExists, func(ctx context.Context) error {
		_, err := c.crds.Create(ctx, d.DeepCopy(), metav1.CreateOptions{})
		return err
	})
	of := dynamic.NewForConfigOrDie(c.config).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}).Namespace("default")
	for n := range 5 {
		c.again("create a custom resource", apierrors.IsAlreadyExists, func(ctx context.Context) error {
			_, err := of.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget",
				"metadata": map[string]any{"name": fmt.Sprintf("x%d", n)}, "size": int64(n)}}, metav1.CreateOptions{})
			return err
		})
	}
	pause(ctx, time.Duration(round%3)*time.Second)
	c.again("a definition goes", apierrors.IsNotFound, func(ctx context.Context) error {
		if err := c.crds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		d, err := c.crds.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = fmt.Errorf("definition %s: %v", name, d.Object["status"])
		}
		return err
	})
	c.did("definitions")
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
		missing = c.restless(ctx)
		pause(ctx, 200*time.Millisecond)
		return missing == ""
	})
}

// restless says what is not as it was asked for.
func (c *churning) restless(ctx context.Context) string {
	deployments, err := c.k.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	want := 0
	for _, d := range deployments.Items {
		n := *d.Spec.Replicas
		want += int(n)
		if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Sprintf("deployment %s: %+v", d.Name, s)
		}
	}
	pods, err := c.k.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	jobs, err := c.k.BatchV1().Jobs("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	spaces, err := c.k.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	crds, err := c.crds.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(deployments.Items) != churnDeployments || len(pods.Items) != want || len(jobs.Items) != 0 || len(spaces.Items) != 4 || len(crds.Items) != 0 {
		return fmt.Sprintf("%d deployments, %d pods of %d, %d jobs, %d namespaces, %d definitions", len(deployments.Items), len(pods.Items), want, len(jobs.Items), len(spaces.Items), len(crds.Items))
	}
	return ""
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
