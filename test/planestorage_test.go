package test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

var (
	movedObjects  = flag.Int("moved-objects", 300, "how many objects a plane has that moves")
	movedWatchers = flag.Int("moved-watchers", 10, "how many watches follow it")
	movedTimes    = flag.Int("moved-times", 7, "how often it moves")
)

// TestPlaneStorage has two servers with planes in three etcds. One plane moves between servers and etcds while it is written to and watched.
// Then an etcd is away: its planes wait, everything else goes on.
func TestPlaneStorage(t *testing.T) {
	t.Parallel()
	s := &planeServers{t: t}
	fast, far := etcdServer(t), startEtcd(t)
	s.flags = []string{"--planes", "--etcd-servers=" + etcdServer(t), "--planes-storage=fast=" + fast, "--planes-storage=far=" + far.client}
	s.add()
	s.add()
	p := planesOf{s.all[0], t}
	for name, class := range map[string]string{"moves": "fast", "away": "far", "stays": ""} {
		if class != "" {
			class = fmt.Sprintf(`,"spec":{"storageClass":%q}`, class)
		}
		body := fmt.Sprintf(`{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":%q}%s}`, name, class)
		must(t, s.all[0].client().RESTClient().Post().AbsPath("/apis/planes.kanzen.io/v1/planes").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error())
	}
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Ready", "planes", "--all", "--timeout=60s")
	if where := p.kubectl(p.kubeconfig(), "", "get", "planes", "-o", "jsonpath={range .items[*]}{.metadata.name}={.status.storageClass} {end}"); where != "away=far moves=fast stays= " {
		t.Errorf("the planes lie in %s", where)
	}
	m := moved{s: s, plane: "moves", stop: make(chan struct{}), ended: make(chan struct{})}
	m.begin()
	classes := []string{"far", "", "fast"}
	for n := range *movedTimes {
		args := []string{"plane", "move", "moves", "--data-dir", s.all[n%2].dir, "--storage", classes[n%3]}
		if n%3 == 1 {
			args = append(args, "--to", s.all[n/3%2].address)
		}
		began := time.Now()
		if stdout, stderr, code := outputWithin(t, 5*time.Minute, binaries.kanzen, args...); code != 0 {
			t.Fatalf("%v: %s%s", args, stdout, stderr)
		}
		t.Logf("move %d, to %q: %v", n+1, classes[n%3], time.Since(began))
		before := m.written.Load()
		within(t, 30*time.Second, "something is written after a move", func(context.Context) bool { return m.written.Load() > before+5 })
	}
	m.end()
	if *movedTimes%3 == 1 { // it lies in far
		within(t, time.Minute, "nothing is left where the plane does not lie", func(ctx context.Context) bool { return keysOfPlanes(ctx, t, fast) == 0 })
		if stdout, stderr, code := output(t, binaries.kanzen, "plane", "move", "moves", "--data-dir", s.all[0].dir, "--storage", "fast"); code != 0 {
			t.Errorf("%s%s", stdout, stderr)
		}
	}

	_, stderr, code := output(t, binaries.kanzen, "plane", "move", "moves", "--data-dir", s.all[0].dir, "--storage", "nowhere")
	if code == 0 || !strings.Contains(stderr, `there is no storage class "nowhere": this server has [far fast]`) {
		t.Errorf("%d %s", code, stderr)
	}
	s.away(far)
}

// away kills an etcd in which a plane lies, and starts it again.
func (s *planeServers) away(far *etcdProcess) {
	s.t.Helper()
	s.asks(0, "away", 30*time.Second)
	far.stop()
	p := planesOf{s.all[0], s.t}
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Ready=false", "plane/away", "--timeout=60s")
	if said := p.kubectl(p.kubeconfig(), "", "get", "plane", "away", "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`); !strings.Contains(said,
		`Ready=False NoAnswer: requests are answered with 503: the etcd of the storage class "far" does not answer`) || !strings.Contains(said, "Stored=False NoAnswer") {
		s.t.Errorf("its conditions:\n%s", said)
	}
	far.start()
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Ready", "plane/away", "--timeout=60s")
	s.asks(0, "away", 30*time.Second)
	within(s.t, time.Minute, "Events tell of it", func(context.Context) bool {
		said := p.kubectl(p.kubeconfig(), "", "describe", "plane", "away")
		return strings.Contains(said, "Unavailable") && strings.Contains(said, "Available")
	})
	far.stop()
	p.kubectl(p.kubeconfig(), "", "wait", "--for=condition=Stored=false", "plane/away", "--timeout=60s")
	s.asks(1, "stays", 5*time.Second)
	if ready, err := s.all[0].client().RESTClient().Get().AbsPath("/readyz").DoRaw(s.t.Context()); err != nil || string(ready) != "ok" {
		s.t.Errorf("the root is not ready: %s, %v", ready, err)
	}
	p.kubectl(p.kubeconfig(), "", "delete", "plane", "away", "--wait=false")
	far.start()
	within(s.t, time.Minute, "a plane is gone that was deleted while its etcd was away", func(ctx context.Context) bool {
		return keysOfPlanes(ctx, s.t, far.client) == 0 && p.kubectl(p.kubeconfig(), "", "get", "plane", "away", "--ignore-not-found") == ""
	})
}

// TestPlaneMoveKilled kills a server a few times while it moves a plane to another etcd and back. The next one has all objects as they were, ends
// the move, and leaves nothing where the plane was.
func TestPlaneMoveKilled(t *testing.T) {
	t.Parallel()
	fast := etcdServer(t)
	dir, flags := t.TempDir(), []string{"--planes", "--planes-storage=fast=" + fast}
	p := planesOf{serve(t, dir, flags...), t}
	s := planeServers{t: t, all: []*kanzen{p.kanzen}}
	p.plane("moves", "")
	c := kubernetes.NewForConfigOrDie(s.at(0, "moves")).CoreV1().ConfigMaps("default")
	for n := range *movedObjects {
		_, err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", n)}, Data: map[string]string{"x": strings.Repeat("x", 500)}}, metav1.CreateOptions{})
		must(t, err)
	}
	objects := func() (all []string) {
		list, err := kubernetes.NewForConfigOrDie(s.at(0, "moves")).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, o := range list.Items {
			all = append(all, fmt.Sprint(o.Name, " ", o.UID, " ", o.ResourceVersion))
		}
		return all
	}
	before := objects()
	for n, class := range []string{"fast", "", "fast"} {
		first := keysOfPlanes(t.Context(), t, fast)
		p.kubectl(p.kubeconfig(), "", "patch", "plane", "moves", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"storageClass":%q}}`, class))
		// The copy has begun, or what it was made of is being removed.
		within(t, time.Minute, "the plane moves", func(ctx context.Context) bool { return keysOfPlanes(ctx, t, fast) != first })
		port := p.port()
		p.end(syscall.SIGKILL)
		p.kanzen = serve(t, dir, append(flags[:len(flags):len(flags)], "--secure-port="+port)...)
		s.all[0] = p.kanzen
		s.asks(0, "moves", time.Minute)
		if after := objects(); !slices.Equal(after, before) {
			t.Fatalf("kill %d: %d objects, before it %d, or other ones", n, len(after), len(before))
		}
		within(t, time.Minute, "the plane has moved, and nothing is left where it was", func(ctx context.Context) bool {
			where := p.kubectl(p.kubeconfig(), "", "get", "plane", "moves", "-o", `jsonpath={.status.storageClass} {.status.conditions[?(@.type=="Stored")].status}`)
			return where == class+" True" && (keysOfPlanes(ctx, t, fast) > 0) == (class != "")
		})
		if after := objects(); !slices.Equal(after, before) {
			t.Fatalf("after move %d: %d objects, before it %d, or other ones", n, len(after), len(before))
		}
	}
}

// keysOfPlanes is how many keys of planes an etcd has; -1: it does not answer.
func keysOfPlanes(ctx context.Context, t *testing.T, etcd string) int {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: 5 * time.Second})
	must(t, err)
	defer c.Close()
	r, err := c.Get(ctx, "/kanzen/planes/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return -1
	}
	return int(r.Count)
}

// etcdProcess is an etcd that can be stopped and started again.
type etcdProcess struct {
	t              *testing.T
	client, member string
	dir            string
	stop           func()
}

func startEtcd(t *testing.T) *etcdProcess {
	e := &etcdProcess{t: t, client: "http://127.0.0.1:" + freePort(t), member: "http://127.0.0.1:" + freePort(t), dir: t.TempDir()}
	e.start()
	return e
}

func (e *etcdProcess) start() {
	e.t.Helper()
	p := start(e.t, link(e.t, "etcd"), "--data-dir", e.dir, "--unsafe-no-fsync", "--listen-client-urls", e.client, "--advertise-client-urls", e.client,
		"--listen-peer-urls", e.member, "--initial-advertise-peer-urls", e.member, "--initial-cluster", "default="+e.member)
	e.stop = func() { p.end(syscall.SIGKILL) }
}

// moved is a plane that is written to and watched while it moves.
type moved struct {
	s       *planeServers
	plane   string
	stop    chan struct{} // ends writing
	writing sync.WaitGroup
	ended   chan struct{} // ends watching
	all     sync.WaitGroup
	watches []*movedWatch
	written atomic.Int64
	waits   []time.Duration // of writes
	failed  int             // how often a write was answered with an error
}

// movedWatch is what a watch has told.
type movedWatch struct {
	mu      sync.Mutex
	seen    map[string]int // names of objects that were created meanwhile
	twice   []string
	relists int
}

func (m *moved) client(n int) *kubernetes.Clientset {
	c := m.s.at(n%len(m.s.all), m.plane)
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return kubernetes.NewForConfigOrDie(c)
}

func (m *moved) begin() {
	t := m.s.t
	c := m.client(0).CoreV1().ConfigMaps("default")
	for n := range *movedObjects {
		_, err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("first-", n)}, Data: map[string]string{"x": strings.Repeat("x", 500)}}, metav1.CreateOptions{})
		must(t, err)
	}
	list, err := c.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for n := range *movedWatchers {
		f := &movedWatch{seen: map[string]int{}}
		m.watches = append(m.watches, f)
		own := m.client(n)
		m.all.Go(func() { f.follow(t.Context(), m.ended, own, list.ResourceVersion) })
	}
	writer := m.client(1)
	m.writing.Go(func() { m.write(writer) })
}

// write creates objects until stop is closed.
func (m *moved) write(client *kubernetes.Clientset) {
	c, ctx := client.CoreV1().ConfigMaps("default"), m.s.t.Context()
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-m.stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
		began := time.Now()
		for ctx.Err() == nil {
			_, err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("w-", n)}}, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			m.failed++
		}
		m.waits = append(m.waits, time.Since(began))
		m.written.Add(1)
	}
}

// follow watches as informers do: from the resourceVersion of the last event on, whenever the watch ends.
func (f *movedWatch) follow(ctx context.Context, stop chan struct{}, client *kubernetes.Clientset, from string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for ctx.Err() == nil {
		w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			f.gone(apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		for open := true; open; {
			select {
			case e, ok := <-w.ResultChan():
				if open = ok; ok {
					from = f.take(e, from)
				}
			case <-stop:
				w.Stop()
				return
			}
		}
	}
}

func (f *movedWatch) gone(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		f.relists++
	}
}

func (f *movedWatch) take(e watch.Event, from string) string {
	c, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		f.gone(e.Type == watch.Error)
		return from
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Type != watch.Bookmark && strings.HasPrefix(c.Name, "w-") {
		if f.seen[c.Name]++; f.seen[c.Name] > 1 {
			f.twice = append(f.twice, c.Name)
		}
	}
	return c.ResourceVersion
}

func (f *movedWatch) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// end stops writing, and checks what is there and what the watches were told.
func (m *moved) end() {
	t := m.s.t
	close(m.stop)
	m.writing.Wait()
	for _, f := range m.watches {
		within(t, time.Minute, "a watch tells of everything", func(context.Context) bool { return f.count() >= int(m.written.Load()) })
	}
	close(m.ended)
	m.all.Wait()
	list, err := m.client(0).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if want := int(m.written.Load()) + *movedObjects + 1; len(list.Items) != want {
		t.Errorf("%d objects, want %d", len(list.Items), want)
	}
	for n, f := range m.watches {
		if f.relists > 0 || len(f.twice) > 0 || f.count() != int(m.written.Load()) {
			t.Errorf("watch %d: %d of %d objects, %d lists anew, twice: %v", n, f.count(), m.written.Load(), f.relists, f.twice)
		}
	}
	slices.Sort(m.waits)
	t.Logf("%d moves with %d objects and %d watches: %d writes, of which %d were repeated; they took %v in the median, %v at most",
		*movedTimes, *movedObjects, *movedWatchers, len(m.waits), m.failed, m.waits[len(m.waits)/2], m.waits[len(m.waits)-1])
}
