package planes

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/base/movingclock"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

var (
	week     = flag.Bool("week", false, "TestLife lasts a week, with 1,000 planes: minutes")
	seedFlag = flag.Uint64("seed", 1, "of tests that make random requests; 0: another one each time")
)

// randomSeed is the same in each run, so that one that failed can be repeated. With -seed=0 it is another one each time.
func randomSeed() uint64 {
	if *seedFlag == 0 {
		return rand.Uint64()
	}
	return *seedFlag
}

// disk is where a life's log is.
type disk interface {
	// open opens the log.
	open(t *testing.T) store.DB
	// cut makes what a process that begins now finds, after the one before was killed; close closes the log of that one.
	cut(r *rand.Rand) (close func())
	// trouble makes some of the next operations fail, and calm ends that.
	trouble(r *rand.Rand)
	calm(t *testing.T)
}

// inMemory is a log in memory, in which operations can fail.
type inMemory struct {
	clock *movingclock.Clock
	db    *memory.DB
}

func (d *inMemory) open(*testing.T) store.DB {
	if d.db == nil {
		d.db = memory.New(d.clock)
	}
	return d.db
}

func (d *inMemory) cut(*rand.Rand) func() {
	old := d.db
	d.db = memory.NewFrom(d.clock, old.Snapshot())
	return func() { _ = old.Close() }
}

func (d *inMemory) trouble(r *rand.Rand) {
	for range 1 + r.IntN(4) {
		d.db.Inject(memory.Fault{Skip: r.IntN(10), Err: errors.New("the disk is away"), Lost: r.IntN(2) == 0})
	}
}

func (d *inMemory) calm(t *testing.T) {
	for d.db.Injected() > 0 {
		_ = d.db.Ping(t.Context()) // takes a fault
	}
}

// onPebble is Pebble on a disk that forgets what was not synced.
type onPebble struct {
	clock *movingclock.Clock
	files *vfs.MemFS
	db    *pebble.DB
}

func (d *onPebble) open(t *testing.T) store.DB {
	t.Helper()
	if d.files == nil {
		d.files = vfs.NewCrashableMem()
	}
	var err error
	if d.db, err = pebble.Open(pebble.Config{Dir: "db", FS: d.files, Clock: d.clock}); err != nil {
		t.Fatal(err)
	}
	return d.db
}

func (d *onPebble) cut(r *rand.Rand) func() {
	old := d.db
	d.files = d.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
	return func() { _ = old.Close() }
}

func (d *onPebble) trouble(*rand.Rand) {}
func (d *onPebble) calm(*testing.T)    {}

// life is a server that is used, and what must be true of it.
type life struct {
	*ground
	t     *testing.T
	r     *rand.Rand
	clock *movingclock.Clock
	disk  disk
	cfg   *config.Config
	names int
	// planes are those that exist, with the names and values of their ConfigMaps. perhaps are writes that were neither acknowledged nor
	// refused: the name has the value, or the one in planes.
	planes  map[string]map[string]string
	perhaps map[string]map[string]string
	ended   sync.WaitGroup // of servers that were killed
	passed  time.Duration
	acts    map[string]int
}

// TestLife is a week's life in minutes. Planes are created, used, put to sleep and deleted at random, time passes, operations of the log
// fail, and the server is killed and finds what was stored. What was acknowledged is there, and in the end the log has nothing but of
// planes that exist, and each of these has its keys. The test of Pebble loses what the disk was not told to keep.
func TestLife(t *testing.T) {
	for name, make := range map[string]func(*movingclock.Clock) disk{
		"memory": func(c *movingclock.Clock) disk { return &inMemory{clock: c} },
		"pebble": func(c *movingclock.Clock) disk { return &onPebble{clock: c} },
	} {
		t.Run(name, func(t *testing.T) {
			names, acts := 8, 150
			if *week {
				names, acts = 1000, 8000
			}
			seed := randomSeed()
			t.Logf("seed %d", seed)
			clk := &movingclock.Clock{}
			cfg := settings(t.TempDir())
			cfg.History, cfg.PlanesIdle, cfg.PlanesAwake = 0, 5*time.Minute, 40
			l := &life{t: t, r: rand.New(rand.NewPCG(seed, 0)), clock: clk, disk: make(clk), cfg: cfg, names: names, planes: map[string]map[string]string{}, perhaps: map[string]map[string]string{}, acts: map[string]int{}}
			l.begin()
			for range acts {
				l.act()
			}
			l.check()
			t.Logf("%v passed, %d planes in the end: %v", l.passed, len(l.planes), l.acts)
			l.stop()
			l.ended.Wait()
		})
	}
}

func (l *life) begin() {
	l.ground = startWith(l.t, l.cfg, process.Given{Clock: l.clock, DB: l.disk.open(l.t)})
}

// act does one thing.
func (l *life) act() {
	name := fmt.Sprint("p", l.r.IntN(l.names))
	there := l.planes[name]
	if there != nil {
		l.administrator(l.t, name) // not in trouble
	}
	if l.r.IntN(6) == 0 {
		l.disk.trouble(l.r)
	}
	what := "wait"
	switch n := l.r.IntN(200); {
	case n < 3:
		what = "kill"
		l.kill(name)
	case there == nil:
		what = "create"
		l.make(name)
	case n < 100:
		what = "write"
		l.write(name)
	case n < 130:
		what = "sleep"
		_ = l.find(name).sleep() // with trouble it may fail, and then the plane is made anew
	case n < 145:
		what = "delete"
		l.remove(name)
	case n < 170:
		what = "read"
		l.calm()
		l.read(name)
	default:
		d := time.Duration(l.r.IntN(int(3 * time.Hour)))
		l.clock.Advance(d)
		l.passed += d
	}
	l.acts[what]++
	l.calm()
}

// calm ends trouble: what was under way meanwhile, and others may share, has failed.
func (l *life) calm() {
	l.t.Helper()
	l.disk.calm(l.t)
	for n := 0; ; n++ {
		err := l.ground.root.Do(l.t.Context(), http.MethodGet, planesPath+"?limit=1", "", nil, nil)
		if err == nil {
			return
		}
		if n == 1000 {
			l.t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// make creates a plane. In trouble it is tried again.
func (l *life) make(name string) {
	for {
		if err := l.tryCreate(l.t, name, PlaneSpec{}); err == nil || apierrors.IsAlreadyExists(err) {
			break
		}
	}
	l.calm()
	l.planes[name], l.perhaps[name] = map[string]string{}, map[string]string{}
	l.await(l.t, name, func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, ready) })
	delete(l.certs, name)
	l.administrator(l.t, name)
}

// write creates, replaces or deletes an object. In trouble it may be done though the answer says that it failed.
func (l *life) write(name string) {
	objects, perhaps := l.planes[name], l.perhaps[name]
	object, value := fmt.Sprint("c", l.r.IntN(20)), fmt.Sprint(l.r.Uint64())
	method, path, body := "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":%q}}`, object, value)
	if _, ok := perhaps[object]; ok {
		return // until it is read
	}
	if objects[object] != "" {
		method, path = "PUT", configMaps+"/"+object
		if l.r.IntN(3) == 0 {
			method, body, value = "DELETE", "", ""
		}
	}
	code, answer := l.ask(l.t, name, name, method, path, body)
	switch {
	case code < 300 && value == "":
		delete(objects, object)
	case code < 300:
		objects[object] = value
	case code >= 500 || code == http.StatusConflict || code == http.StatusNotFound || code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusTooManyRequests:
		// A conflict or an absence may be that with the server's own first attempt.
		perhaps[object] = value
	default:
		l.t.Errorf("%s %s in %s: %d %s", method, object, name, code, answer)
	}
}

// remove deletes a plane, and waits until nothing of it is left.
func (l *life) remove(name string) {
	l.calm()
	delete(l.planes, name)
	delete(l.perhaps, name)
	var patch any
	if l.r.IntN(3) == 0 { // by one who does not wait for what the finalizer is for
		patch = []byte(`{"metadata":{"finalizers":null}}`)
	}
	l.delete(l.t, name, patch)
	delete(l.certs, name)
}

// read compares what a plane has with what was acknowledged.
func (l *life) read(name string) {
	l.t.Helper()
	var list corev1.ConfigMapList
	l.must(l.t, name, "GET", configMaps, "", &list)
	objects, perhaps, seen := l.planes[name], l.perhaps[name], map[string]string{}
	for _, c := range list.Items {
		if c.Name != "kube-root-ca.crt" {
			seen[c.Name] = c.Data["a"]
		}
	}
	for object, value := range perhaps {
		if now := seen[object]; now == value || now == objects[object] {
			delete(perhaps, object)
			if objects[object] = now; now == "" {
				delete(objects, object)
			}
		}
	}
	if !maps.Equal(seen, objects) {
		l.t.Fatalf("%s has %v; acknowledged were %v, perhaps %v", name, seen, objects, perhaps)
	}
}

// kill drops the server as it is, often with something under way, and starts another one on what is stored.
func (l *life) kill(name string) {
	l.calm()
	switch there := l.planes[name] != nil; {
	case !there:
		if err := l.tryCreate(l.t, name, PlaneSpec{}); err != nil {
			l.t.Fatal(err)
		}
		l.planes[name], l.perhaps[name] = map[string]string{}, map[string]string{}
	case l.r.IntN(2) == 0:
		if err := l.ground.root.Do(l.t.Context(), http.MethodDelete, planesPath+"/"+name, "", nil, nil); err != nil {
			l.t.Fatal(err)
		}
		delete(l.planes, name)
		delete(l.perhaps, name)
	}
	time.Sleep(time.Duration(l.r.IntN(int(10 * time.Millisecond))))
	old, end := l.ground, l.disk.cut(l.r)
	old.killed.Store(true)
	l.ended.Go(func() { old.stop(); end() })
	l.begin()
	for name := range l.planes {
		l.await(l.t, name, func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, ready) })
	}
	for n := range l.names {
		if name := fmt.Sprint("p", n); l.planes[name] == nil {
			for l.ground.root.Do(l.t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, nil) == nil || l.find(name) != nil {
				if err := l.pause(l.t.Context()); err != nil {
					l.t.Fatal(err)
				}
			}
		}
	}
}

// check reads all storage: there is no key without a plane, no plane without its keys, and all that was acknowledged is there.
func (l *life) check() {
	uids, secrets := map[string]bool{}, []string{}
	for name := range l.planes {
		l.read(name)
		uids[string(l.await(l.t, name, func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, ready) }).UID)] = true
		secrets = append(secrets, keysSecret(name), kubeconfigSecret(name))
	}
	l.Fleet.ending.Wait()
	l.sweep(l.t.Context())
	if _, err := l.on.DB.Range(l.t.Context(), kv.Range{Key: Prefix, End: kv.PrefixEnd(Prefix)}, func(k kv.KeyValue) bool {
		if uid, _, _ := strings.Cut(strings.TrimPrefix(string(k.Key), Prefix), "/"); !uids[uid] {
			l.t.Errorf("a key of no plane: %q", k.Key)
		}
		return true
	}); err != nil {
		l.t.Fatal(err)
	}
	var stored []string
	var list corev1.SecretList
	if err := l.ground.root.Do(l.t.Context(), http.MethodGet, secretsPath, "", nil, &list); err != nil {
		l.t.Fatal(err)
	}
	for _, s := range list.Items {
		if strings.HasSuffix(s.Name, "-keys") || strings.HasSuffix(s.Name, "-kubeconfig") {
			stored = append(stored, s.Name)
		}
		if len(s.OwnerReferences) != 1 || !uids[string(s.OwnerReferences[0].UID)] {
			l.t.Errorf("a secret of no plane: %s", s.Name)
		}
	}
	slices.Sort(stored)
	slices.Sort(secrets)
	if !slices.Equal(stored, secrets) {
		l.t.Errorf("secrets %v, want %v", stored, secrets)
	}
}

// delete deletes a Plane and waits until it is gone; patch, if it is not nil, is applied meanwhile.
func (g *ground) delete(t *testing.T, name string, patch any) {
	t.Helper()
	for done := false; !done; {
		if err := g.root.Do(t.Context(), http.MethodDelete, planesPath+"/"+name, "", nil, nil); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if patch != nil {
			_ = g.root.Do(t.Context(), http.MethodPatch, planesPath+"/"+name, apiclient.MergePatch, patch, nil) // it may be gone
		}
		done = apierrors.IsNotFound(g.root.Do(t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, nil))
	}
	for g.find(name) != nil { // until the watch has told
		if err := g.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
