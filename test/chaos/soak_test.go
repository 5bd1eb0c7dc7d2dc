package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/test/churn"
)

var (
	soakFor      = flag.Duration("soak", 0, "how long a whole cluster is used while things break (make soak); 0: not at all")
	soakSeed     = flag.Uint64("soak.seed", 0, "what breaks when; 0: by the clock")
	soakOut      = flag.String("soak.out", "", "folder for the report and logs; empty: one that is removed")
	soakEvidence = flag.String("soak.evidence", "", "file of evidence to write; empty: none")
)

// soak is a cluster, everybody who uses it, and what came of it.
type soak struct {
	t        *testing.T
	c        *cluster
	can      able
	out      string
	etcd     *clientv3.Client
	clients  [members]*kubernetes.Clientset
	objects  [members]dynamic.Interface
	kinds    []schema.GroupVersionResource
	mirrors  []*mirror
	programs map[string]*program
	changes  *churn.Cluster
	people   *people
	ledger   *ledger
	disks    map[string]string // folders with a disk of their own, by process
	base     [members]figures  // at the last rest
	moment   string            // which rest it is
	mu       sync.Mutex
	faults   []string // what users asked for and did not get; guarded by mu
	old      int64    // the revision of etcd at the first rest
	report   report
}

// TestSoak uses a whole cluster for a while, breaks one part after another, lets it come to rest, and then compares everything with everything.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("run with -soak=90s, or make soak")
	}
	if *soakSeed == 0 {
		*soakSeed = uint64(time.Now().Unix())
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	began := time.Now()
	s := newSoak(t)
	t.Logf("seed %d; %s", *soakSeed, s.report.Missing)
	t.Cleanup(func() { s.writeReport(time.Since(began)) })
	warm := min(max(*soakFor/10, 20*time.Second), 4*time.Minute)
	s.round(0, warm, turns(warm))
	s.rest("baseline")
	for n, spared := range [][]string{{"s0"}, {"s0", "s1"}} {
		steps := planSteps(*soakSeed+uint64(n), *soakFor/2, spared, s.can)
		s.round(n+1, *soakFor/2, steps)
		s.rest([]string{"half", "end"}[n])
	}
}

func newSoak(t *testing.T) *soak {
	s := &soak{t: t, out: *soakOut, disks: map[string]string{}, ledger: newLedger()}
	if s.out == "" {
		s.out = t.TempDir()
	}
	must(t, os.MkdirAll(s.out, 0o755))
	var noDisk error
	// Events go while the run lasts, by leases of etcd; those of an hour would take minutes to delete one by one.
	s.c = newCluster(t, binary(t), options{serverArgs: []string{"--event-ttl=10m"}, disk: func(name, folder string) {
		size := map[string]int{"e2": 768, "s2": 512}[name]
		if size == 0 || noDisk != nil {
			return
		}
		if noDisk = smallDisk(t, folder, size); noDisk == nil {
			s.disks[name] = folder
		}
	}})
	s.can = able{cuts: s.c.partitions, disks: noDisk == nil}
	s.report = report{Seed: *soakSeed, Length: soakFor.String(), Did: counts{}, Missing: s.missing(noDisk)}
	ctx := t.Context()
	var err error
	s.etcd, err = clientv3.New(clientv3.Config{Endpoints: s.c.etcdURLs, DialTimeout: 5 * time.Second})
	must(t, err)
	t.Cleanup(func() { _ = s.etcd.Close() })
	for n, server := range s.c.servers {
		config, err := s.c.config(server)
		must(t, err)
		s.clients[n], s.objects[n] = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	}
	var kubeconfig string
	s.programs, kubeconfig = s.c.startPrograms(ctx, t, s.out)
	balanced, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	balanced.QPS = -1
	s.changes, err = churn.New(balanced, s.fault)
	must(t, err)
	s.people = &people{kubectl: builtProgram(t, "KUBECTL", "bin", "kanzen-kubectl"), kubeconfig: kubeconfig, file: filepath.Join(s.c.dir, "shop.yaml"), counts: map[string]int{}}
	s.prepare(ctx)
	s.kinds, err = kinds(s.clients[0].Discovery())
	must(t, err)
	for n, server := range s.c.servers {
		list, err := startMirrors(ctx, server.name, s.objects[n], s.kinds)
		must(t, err)
		s.mirrors = append(s.mirrors, list...)
	}
	t.Logf("%d kinds, %d informers", len(s.kinds), len(s.mirrors))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fault keeps what a user asked for and did not get.
func (s *soak) fault(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, what)
}

// missing says what this machine does not let a run do.
func (s *soak) missing(noDisk error) string {
	var out []string
	if !s.can.cuts {
		out = append(out, "nothing is cut off from the network: "+canPartition())
	}
	if !s.can.disks {
		out = append(out, "no disk is filled: "+noDisk.Error())
	}
	return strings.Join(out, "; ")
}

// prepare makes what everybody uses.
func (s *soak) prepare(ctx context.Context) {
	t, k := s.t, s.clients[0]
	for _, name := range []string{ledgerSpace, sitesSpace, "shop"} {
		_, err := k.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		_, err = k.CoreV1().ResourceQuotas(name).Create(ctx, quota(), metav1.CreateOptions{})
		must(t, err)
	}
	s.insist("apply", "-f", filepath.Join("..", "kubebuilder", "config", "crd", "bases"))
	s.insist("wait", "--for=condition=Established", "crd/sites.web.example.com", "--timeout=60s")
	for n := range 10 {
		name := fmt.Sprintf("node-%d", n)
		can := corev1.ResourceList{"cpu": quantity("32"), "memory": quantity("256Gi"), "pods": quantity("110")}
		_, err := k.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Allocatable: can, Capacity: can}}, metav1.CreateOptions{})
		must(t, err)
	}
	s.changes.Deployments()
}

// insist types a command until it succeeds, for a while.
func (s *soak) insist(args ...string) {
	wrong := eventually(2*time.Minute, func(ctx context.Context) []string { return orError(nil, s.people.run(ctx, args...)) })
	if len(wrong) > 0 {
		s.t.Fatal(s.people.said[len(s.people.said)-1])
	}
}

// round uses the cluster for a time in which steps are done, and judges what clients were told.
func (s *soak) round(n int, length time.Duration, steps []step) {
	t := s.t
	t.Logf("round %d: %v, %d steps", n, length, len(steps))
	l := &load{began: time.Now(), clients: s.clients, objects: registers, slow: time.Second}
	l.era.Store(int64(n) * 1000)
	if err := l.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := s.clients[0].CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	var watchers []*watcher
	var watches, work sync.WaitGroup
	for n, server := range s.c.servers {
		w := &watcher{server: server.name}
		watchers = append(watchers, w)
		watches.Go(func() { w.run(watching, s.clients[n], list.ResourceVersion) })
	}
	working, stopWorking := context.WithCancel(t.Context())
	defer stopWorking()
	s.users(working, &work, l, n)
	until := time.Now().Add(length)
	for _, step := range steps {
		time.Sleep(step.after)
		s.do(step)
	}
	time.Sleep(time.Until(until))
	for _, server := range s.c.servers {
		s.c.await(t, server)
	}
	stopWorking()
	work.Wait()
	if err := l.mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline) && !arrived(watchers); {
		time.Sleep(250 * time.Millisecond)
	}
	stopWatching()
	watches.Wait()
	s.check(fmt.Sprintf("round %d: users got what they asked for", n), func(t *testing.T) {
		s.mu.Lock()
		defer s.mu.Unlock()
		say(t, s.faults)
		s.faults = nil
	})
	s.check(fmt.Sprintf("round %d: registers", n), func(t *testing.T) {
		changes := equalWatches(t, watchers)
		s.report.Judged += judge(t, l.operations, changes, 5*time.Minute)
		s.report.Events += len(changes)
	})
}

// users are all who use the cluster until ctx ends. What they have begun comes to its end.
func (s *soak) users(ctx context.Context, work *sync.WaitGroup, l *load, round int) {
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(*soakSeed+uint64(round), n)) }
	for n := range workers {
		work.Go(func() { l.work(ctx, n, random(uint64(n))) })
	}
	work.Go(func() { s.eras(ctx, l) })
	for n := range members {
		work.Go(func() { s.ledger.write(ctx, s.clients[n], fmt.Sprintf("r%d-s%d", round, n), random(uint64(100+n))) })
	}
	work.Go(func() { s.people.work(ctx, round) })
	work.Go(func() { sites(ctx, s.objects[round%members], round, random(200)) })
	for n, change := range []struct {
		between time.Duration
		do      func(context.Context, int)
	}{{10 * time.Second, s.changes.Roll}, {8 * time.Second, s.changes.Job}, {10 * time.Second, s.changes.Namespace}, {15 * time.Second, s.changes.Definition}} {
		work.Go(func() { again(ctx, n*100_000+round*10_000, change.between, change.do) })
	}
}

// eras has workers use new registers now and then.
func (s *soak) eras(ctx context.Context, l *load) {
	for churn.Pause(ctx, time.Minute); ctx.Err() == nil; churn.Pause(ctx, time.Minute) {
		next := l.era.Load() + 1
		for n := 0; n < registers && ctx.Err() == nil; {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: registerName(next, n)}, Data: map[string]string{"value": "initial"}}
			if err := s.create(obj); err == nil || apierrors.IsAlreadyExists(err) {
				n++
			}
		}
		if ctx.Err() == nil {
			l.era.Store(next)
		}
	}
}

// create creates an object in the namespace default, through the balancer.
func (s *soak) create(obj *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := s.changes.K.CoreV1().ConfigMaps("default").Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// do breaks something, and mends it.
func (s *soak) do(step step) {
	t := s.t
	t.Logf("%s %v", time.Now().Format(time.TimeOnly), step)
	s.report.Did[step.what+" "+strings.TrimRight(step.whom[0], "0123456789")]++
	if p := s.programs[step.whom[0]]; p != nil {
		p.kill()
		time.Sleep(step.lasts)
		return
	}
	all := append(slices.Clone(s.c.servers[:]), s.c.etcds[:]...)
	var of []*node
	for _, name := range step.whom {
		of = append(of, all[slices.IndexFunc(all, func(n *node) bool { return n.name == name })])
	}
	each := func(f func(n *node)) {
		for _, n := range of {
			f(n)
		}
	}
	switch step.what {
	case kill, end:
		signal := map[string]syscall.Signal{kill: syscall.SIGKILL, end: syscall.SIGTERM}[step.what]
		each(func(n *node) { n.end(signal) })
		time.Sleep(step.lasts)
		each(func(n *node) { n.start(t) })
	case pause:
		each(func(n *node) { n.signal(syscall.SIGSTOP) })
		time.Sleep(step.lasts)
		each(func(n *node) { n.signal(syscall.SIGCONT) })
	case cut:
		each(func(n *node) { n.cut(t, true) })
		time.Sleep(step.lasts)
		each(func(n *node) { n.cut(t, false) })
	case fill:
		s.fill(of[0], step.lasts)
	}
	for _, n := range of {
		if n.name[0] == 's' {
			s.c.await(t, n)
		}
	}
	s.programs["kwok"].kill() // it does not repeat what was refused, as a kubelet does; when it starts it looks at everything
}

// fill fills a disk for a while. A member of etcd ends when it cannot write; a server has to live.
func (s *soak) fill(n *node, lasts time.Duration) {
	free, err := fillDisk(s.disks[n.name])
	must(s.t, err)
	time.Sleep(lasts)
	must(s.t, free())
	if n.name[0] == 'e' {
		n.end(syscall.SIGKILL)
		n.start(s.t)
	}
}

// check is a test of its own, which the report counts.
func (s *soak) check(name string, f func(t *testing.T)) {
	ok := s.t.Run(name, f)
	s.report.Checks = append(s.report.Checks, outcomeOf{Name: name, Passed: ok})
}

// say fails a check by what is wrong.
func say(t *testing.T, wrong []string) {
	t.Helper()
	for n, w := range wrong {
		if n == 30 {
			t.Errorf("and %d more", len(wrong)-n)
			return
		}
		t.Error(w)
	}
}

// eventually asks until nothing is wrong, for a limited time, and returns what is wrong then. After the half of it the log has what is.
func eventually(limit time.Duration, ask func(ctx context.Context) []string) []string {
	deadline, told := time.Now().Add(limit), false
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		wrong := ask(ctx)
		cancel()
		if len(wrong) == 0 || time.Now().After(deadline) {
			return wrong
		}
		if !told && time.Until(deadline) < limit/2 {
			told = true
			fmt.Printf("still, after %v: %q\n", limit/2, wrong[:min(len(wrong), 10)])
		}
		time.Sleep(2 * time.Second)
	}
}

// orError is what an error says, as what is wrong.
func orError(wrong []string, err error) []string {
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// rest lets the cluster come to rest, checks it, and measures the servers.
func (s *soak) rest(moment string) {
	s.moment = moment
	began := time.Now()
	s.programs["kwok"].kill()
	s.changes.Even()
	must(s.t, s.people.write("at rest, "+moment))
	s.insist("apply", "-f", s.people.file)
	s.check(moment+": comes to rest", func(t *testing.T) {
		say(t, eventually(5*time.Minute, func(ctx context.Context) []string {
			if wrong := s.changes.Restless(ctx); wrong != "" {
				return []string{wrong}
			}
			return nil
		}))
	})
	s.check(moment+": state", func(t *testing.T) {
		say(t, eventually(4*time.Minute, func(ctx context.Context) []string {
			all, err := everything(ctx, s.objects[0], s.kinds, "")
			return orError(judgeState(all, time.Now(), s.identities(), []string{"kube-system/kube-controller-manager", "kube-system/kube-scheduler", "kube-system/sites.web.example.com"}), err)
		}))
	})
	s.check(moment+": what was acknowledged", s.checkLedger)
	s.check(moment+": removal of what was written", s.clean)
	for n, server := range s.c.servers {
		s.check(moment+": "+server.name+" lists what etcd holds", func(t *testing.T) { s.compareStored(t, n) })
		s.check(moment+": informers at "+server.name, func(t *testing.T) { s.compareMirrors(t, n) })
	}
	s.checkFigures()
	s.t.Logf("%s: checked in %v", moment, time.Since(began).Round(time.Second))
}

// identities are how many servers can be told apart, by the names of their machines.
func (s *soak) identities() int {
	if s.can.cuts {
		return members
	}
	return 1
}

func (s *soak) checkLedger(t *testing.T) {
	list, err := s.objects[1].Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ledgerSpace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	found := map[string]string{}
	for _, m := range list.Items {
		if m.GetName() != "kube-root-ca.crt" {
			found[m.GetName()] = string(m.GetUID())
		}
	}
	say(t, s.ledger.differs(found))
	s.report.Acknowledged += s.ledger.writes
}

// clean removes what was written, so that there is the same at each rest.
func (s *soak) clean(t *testing.T) {
	say(t, eventually(15*time.Minute, func(ctx context.Context) (wrong []string) {
		k, all := s.clients[0], metav1.ListOptions{}
		wrong = orError(wrong, s.objects[0].Resource(sitesKind).Namespace(sitesSpace).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
		if left, err := listAt(ctx, s.objects[0], sitesKind, ""); err != nil || len(left) > 0 {
			return orError(append(wrong, fmt.Sprintf("%d sites are left", len(left))), err)
		}
		for _, space := range []string{ledgerSpace, sitesSpace, "default"} {
			maps, err := k.CoreV1().ConfigMaps(space).List(ctx, all)
			if err != nil {
				return orError(wrong, err)
			}
			for _, m := range maps.Items {
				if m.Name != "kube-root-ca.crt" {
					if err := k.CoreV1().ConfigMaps(space).Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
						wrong = orError(wrong, err)
					}
				}
			}
		}
		spaces, err := k.CoreV1().Namespaces().List(ctx, all)
		if err != nil {
			return orError(wrong, err)
		}
		for _, n := range spaces.Items {
			wrong = orError(wrong, k.CoreV1().Events(n.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
		}
		return wrong
	}))
	s.ledger = newLedger()
}

// ownKeys are the bookkeeping of servers, of which no kind lists objects.
func ownKeys(key string) bool {
	for _, prefix := range []string{"/registry/ranges/", "/registry/masterleases/", "/registry/peerserverleases/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// compareStored compares all that a server lists with all keys of etcd, as of one revision.
func (s *soak) compareStored(t *testing.T, n int) {
	say(t, eventually(time.Minute, func(ctx context.Context) []string {
		keys, revision, err := storedAt(ctx, s.etcd)
		if err != nil {
			return []string{err.Error()}
		}
		all, err := everything(ctx, s.objects[n], s.kinds, revision)
		if err != nil {
			return []string{err.Error()}
		}
		s.report.Keys = len(keys)
		return unstored(s.c.servers[n].name, all, keys, ownKeys)
	}))
}

// compareMirrors compares what informers at a server hold with what each server lists.
func (s *soak) compareMirrors(t *testing.T, n int) {
	deadline := time.Now().Add(2 * time.Minute)
	for _, m := range s.mirrors {
		if m.server != s.c.servers[n].name {
			continue
		}
		say(t, eventually(max(time.Until(deadline), 5*time.Second), func(ctx context.Context) (wrong []string) {
			for other := range members {
				list, err := listAt(ctx, s.objects[other], m.kind, "")
				if err != nil {
					return []string{err.Error()}
				}
				wrong = append(wrong, unequal(kindOf(m.kind), "the informer at "+m.server, s.c.servers[other].name, versions(m.held()), versions(list))...)
			}
			return wrong
		}))
		m.mu.Lock()
		say(t, m.faults)
		s.report.Events += m.events
		m.events, m.faults = 0, nil
		m.mu.Unlock()
	}
}

// checkFigures measures the servers. Processes that were measured at the last rest have to be where they were. Meanwhile the programs are away: which server the balancer has passed them to is another thing each time.
func (s *soak) checkFigures() {
	for _, p := range s.programs {
		p.held.Store(true)
		p.kill()
		defer p.held.Store(false)
	}
	time.Sleep(10 * time.Second) // connections become idle
	for n, server := range s.c.servers {
		f, err := s.c.measure(s.t.Context(), server, s.clients[n])
		must(s.t, err)
		if s.base[n].Process == f.Process {
			s.check(s.moment+": "+server.name+" holds what it held", func(t *testing.T) {
				say(t, eventually(4*time.Minute, func(ctx context.Context) []string {
					if f, err = s.c.measure(ctx, server, s.clients[n]); err != nil {
						return []string{err.Error()}
					}
					return grown(server.name, s.base[n], f, s.moment != "end" || *soakFor < 20*time.Minute)
				}))
			})
		}
		s.base[n] = f
		s.report.Figures = append(s.report.Figures, measured{Moment: s.moment, Server: server.name, figures: f})
	}
	s.checkCompacted()
}

// checkCompacted measures etcd, and asks whether servers let it forget.
func (s *soak) checkCompacted() {
	ctx := s.t.Context()
	status, err := s.etcd.Status(ctx, s.c.etcdURLs[0])
	must(s.t, err)
	s.report.Etcd = append(s.report.Etcd, etcdMeasured{Moment: s.moment, InUse: int(status.DbSizeInUse >> 20), Size: int(status.DbSize >> 20), Revision: status.Header.Revision})
	if s.old == 0 {
		s.old = status.Header.Revision
	} else if s.moment == "end" && *soakFor >= 20*time.Minute {
		s.check("end: etcd has forgotten the beginning", func(t *testing.T) {
			if _, err := s.etcd.Get(ctx, "/registry/x", clientv3.WithRev(s.old)); !errors.Is(err, errCompacted) {
				t.Errorf("revision %d, of the first rest: %v", s.old, err)
			}
		})
	}
}

// allCounts are how often users did what.
func (s *soak) allCounts() map[string]int {
	out := s.changes.Counts()
	s.people.mu.Lock()
	defer s.people.mu.Unlock()
	maps.Copy(out, s.people.counts)
	return out
}
