package exports

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Plane is a plane of the fleet.
type Plane struct {
	Name   string
	UID    types.UID
	Labels map[string]string
}

// Planes is the fleet, as far as it lies in one log. No method but RoundTrip of a transport wakes a plane.
type Planes interface {
	// List returns all planes in the log but those that are being made or deleted, and Find one of them.
	List() []Plane
	Find(name string) (Plane, bool)
	// Known reports whether there is a plane, also one that is being made or deleted, or lies in another log.
	Known(uid types.UID) bool
	// Stay returns how a plane lies in the log. The error is ErrElsewhere if it does not, which List and Find may not know yet.
	Stay(ctx context.Context, uid types.UID) (Stay, error)
	// Log returns the log with all that a plane has there, and the prefix of its keys; also of one that is gone, of which nothing is stored.
	Log(ctx context.Context, uid types.UID) (db store.DB, prefix string, err error)
	// Awake reports whether a plane is.
	Awake(name string) bool
	// Transport returns a transport for requests of a user to a plane.
	Transport(name string, u user.Info) http.RoundTripper
}

// Stay is how a plane lies in a log.
type Stay struct {
	// While are conditions of a transaction in the log that hold as long as it goes on to lie there.
	While []kv.Condition
	// Leaves says where it is to lie instead; "": it stays.
	Leaves string
	// By is how much greater the revisions are that its clients know than those of the log, and Since the one with which it came here.
	By, Since int64
}

// ErrElsewhere says that a plane does not lie in the log.
var ErrElsewhere = errors.New("the plane lies in another log now")

// Config is what exports need.
type Config struct {
	Planes Planes
	// DB is the log of the planes, and Place what messages call it. Shared: other fleets may have planes and records there, too.
	DB     store.DB
	Place  string
	Shared bool
	// Others are the exports among planes in all other logs.
	Others func() []*Exports
	// Transformer returns how the values of a resource are encrypted.
	Transformer func(schema.GroupResource) store.Transformer
	// Types and Gates are those of the control planes.
	Types fieldmanager.Types
	Gates features.Set
	Clock clock.WithTickerAndDelayedExecution
	Guard *guard.Guard
	Log   *slog.Logger
}

// ref names an export or a binding.
type ref struct{ plane, name string }

func (r ref) String() string { return r.plane + "/" + r.name }

// Exports are the exports and bindings among the planes in one log.
type Exports struct {
	Config
	queue  *queue.Queue
	views  views
	loaded atomic.Bool // all that there is has been looked at once

	mu     sync.Mutex
	offers map[ref]*offer // by their exports; guarded by mu
	bound  map[ref]ref    // the exports of bindings; guarded by mu
	// held are the bindings, by their planes, for which a schema is held back, and the prefixes of the objects that have to change;
	// guarded by mu.
	held map[types.UID]map[ref][]string
}

// New makes the exports among the planes in one log. Run must run.
func New(c Config) *Exports {
	e := &Exports{Config: c, offers: map[ref]*offer{}, bound: map[ref]ref{}, held: map[types.UID]map[ref][]string{}}
	e.queue = queue.New("exports", c.Clock, c.Guard, nil, c.Log)
	e.views.all = map[ref]*view{}
	return e
}

// opener decrypts a value of a resource at a key.
type opener func(ctx context.Context, of GroupResource, key string, value []byte) ([]byte, error)

func (e *Exports) open(ctx context.Context, of GroupResource, key string, value []byte) ([]byte, error) {
	t := cbor.Storage(e.Transformer(schema.GroupResource{Group: of.Group, Resource: of.Resource}), false)
	value, _, err := t.FromStorage(ctx, key, value)
	return value, err
}

// The prefixes of keys in planes.
const (
	exportsKey     = Group + "/exports/"
	bindingsKey    = Group + "/bindings/"
	definitionsKey = "apiextensions.k8s.io/customresourcedefinitions/"
)

// workers is how many bindings and exports are looked at at a time.
const workers = 4

// Run keeps exports and bindings until ctx ends.
func (e *Exports) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { e.queue.Run(ctx, workers, e.look) })
	all.Go(func() { e.views.run(ctx, e) })
	defer all.Wait()
	for ctx.Err() == nil {
		if err := e.follow(ctx); err != nil && ctx.Err() == nil {
			e.Log.Warn("could not follow exports and bindings, trying again", "error", err)
		}
		select {
		case <-e.Clock.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// follow looks at all planes, and then at what changes in them.
func (e *Exports) follow(ctx context.Context) error {
	head, err := e.DB.Head(ctx)
	if err != nil {
		return err
	}
	for _, p := range e.Planes.List() {
		e.Changed(p.Name)
	}
	e.queue.AddAfter(sweepAll, 0)
	return e.DB.Watch(ctx, kv.Watch{Key: planesPrefix, Prefix: true, From: head + 1}, func(events []kv.Event, _ int64) error {
		for n := range events {
			e.notice(string(events[n].Key))
		}
		return nil
	})
}

// notice has what concerns a key that was written looked at.
func (e *Exports) notice(key string) {
	uid, below, _ := strings.Cut(strings.TrimPrefix(key, planesPrefix), "/")
	below = strings.TrimSuffix(below, hides)
	e.changed(types.UID(uid), below)
	if !strings.HasPrefix(below, Group+"/") && !strings.HasPrefix(below, definitionsKey) {
		return
	}
	plane := e.nameOf(types.UID(uid))
	if plane == "" {
		return
	}
	if name, ok := strings.CutPrefix(below, exportsKey); ok {
		e.queue.Add(exportName(ref{plane, name}))
	} else if name, ok := strings.CutPrefix(below, bindingsKey); ok {
		e.queue.Add(bindingName(ref{plane, name}))
	} else if strings.HasPrefix(below, definitionsKey) {
		e.defined(plane)
	}
}

// recheckAfter is how long after a change it is looked again whether what is stored fits a schema that is held back.
const recheckAfter = time.Second

// changed has bindings of a plane looked at again that wait for an object to change.
func (e *Exports) changed(plane types.UID, below string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r, prefixes := range e.held[plane] {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(below, p) }) {
			e.queue.AddAfter(bindingName(r), recheckAfter)
		}
	}
}

// hold notes which objects a binding waits for; none: it does not wait.
func (e *Exports) hold(plane types.UID, r ref, prefixes []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(prefixes) == 0 {
		if delete(e.held[plane], r); len(e.held[plane]) == 0 {
			delete(e.held, plane)
		}
		return
	}
	if e.held[plane] == nil {
		e.held[plane] = map[ref][]string{}
	}
	e.held[plane][r] = prefixes
}

// nameOf returns the name of a plane; "": there is none.
func (e *Exports) nameOf(uid types.UID) string {
	for _, p := range e.Planes.List() {
		if p.UID == uid {
			return p.Name
		}
	}
	return ""
}

// defined has the exports and bindings of a plane looked at, one of whose definitions has changed.
func (e *Exports) defined(plane string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.offers {
		if r.plane == plane {
			e.queue.Add(exportName(r))
		}
	}
	for r := range e.bound {
		if r.plane == plane {
			e.queue.Add(bindingName(r))
		}
	}
}

// Changed is told that a plane is new, that its labels or what it began with are others, that it has woken, or that it is gone.
func (e *Exports) Changed(plane string) { e.queue.Add("plane " + plane) }

// sweepAll is the name of looking for records of planes that are gone, loadAll of what is done once everything was looked at.
const sweepAll, loadAll = "sweep", "load"

func exportName(r ref) string  { return "export " + r.String() }
func bindingName(r ref) string { return "binding " + r.String() }

// look does the work of a name of the queue.
func (e *Exports) look(ctx context.Context, name string) error {
	what, of, _ := strings.Cut(name, " ")
	plane, object, _ := strings.Cut(of, "/")
	switch what {
	case "plane":
		return e.lookAtPlane(ctx, plane)
	case "export":
		return e.lookAtExport(ctx, ref{plane, object})
	case "binding":
		return e.lookAtBinding(ctx, ref{plane, object})
	case loadAll:
		e.load()
		return nil
	}
	return e.sweep(ctx)
}

// load has bindings in other logs learn what is offered here: it comes after all exports that a sweep has found in the queue.
func (e *Exports) load() {
	if !e.loaded.Swap(true) {
		for _, o := range e.Others() {
			o.rebind(func(of ref) bool { _, here := e.Planes.Find(of.plane); return here })
		}
	}
}

// rebind has the bindings of some exports looked at.
func (e *Exports) rebind(of func(ref) bool) {
	e.mu.Lock()
	all := maps.Clone(e.bound)
	e.mu.Unlock()
	for binding, export := range all {
		if of(export) {
			e.queue.Add(bindingName(binding))
		}
	}
}

// lookAtPlane has all exports and bindings of a plane looked at, and those of others that depend on it.
func (e *Exports) lookAtPlane(ctx context.Context, plane string) error {
	e.mu.Lock()
	for r := range e.offers {
		if r.plane == plane {
			e.queue.Add(exportName(r))
		}
	}
	for r, of := range e.bound {
		if r.plane == plane || of.plane == plane {
			e.queue.Add(bindingName(r))
		}
	}
	e.mu.Unlock()
	p, ok := e.Planes.Find(plane)
	if !ok {
		e.queue.AddAfter(sweepAll, 0)
		return nil
	}
	return e.each(ctx, p, Group+"/", func(below string) {
		if name, ok := strings.CutPrefix(below, exportsKey); ok {
			e.queue.Add(exportName(ref{plane, name}))
		} else if name, ok := strings.CutPrefix(below, bindingsKey); ok {
			e.queue.Add(bindingName(ref{plane, name}))
		}
	})
}

// each passes on the keys with a prefix that a plane has.
func (e *Exports) each(ctx context.Context, p Plane, prefix string, each func(below string)) error {
	db, at, err := e.Planes.Log(ctx, p.UID)
	if err != nil {
		return err
	}
	_, err = db.Range(ctx, kv.Range{Key: at + prefix, End: kv.PrefixEnd(at + prefix)}, func(k kv.KeyValue) bool {
		each(strings.TrimPrefix(string(k.Key), at))
		return true
	})
	return err
}

// stored reads what a plane has at a key; nil: nothing.
func (e *Exports) stored(ctx context.Context, p Plane, of GroupResource, below string) (value []byte, err error) {
	db, at, err := e.Planes.Log(ctx, p.UID)
	if err != nil {
		return nil, err
	}
	var found *kv.KeyValue
	if _, err = db.Range(ctx, kv.Range{Key: at + below}, func(k kv.KeyValue) bool { found = &k; return false }); err != nil || found == nil {
		return nil, err
	}
	return e.open(ctx, of, string(found.Key), found.Value)
}

// read reads an export or a binding.
func (e *Exports) read(ctx context.Context, p Plane, resource, name string, into any) (found bool, err error) {
	value, err := e.stored(ctx, p, GroupResource{Group, resource}, Group+"/"+resource+"/"+name)
	if err != nil || value == nil {
		return false, err
	}
	return true, json.Unmarshal(value, into)
}

// sweep removes records of planes that are gone, and has bindings looked at whose objects may be gone.
func (e *Exports) sweep(ctx context.Context) error {
	records, err := readRecords(ctx, e.DB, recordsPrefix, 0)
	if err != nil {
		return err
	}
	for key, r := range records {
		provider, rest, _ := strings.Cut(key, "/")
		offers, binds := e.Planes.Known(types.UID(provider)), e.Planes.Known(types.UID(rest[strings.LastIndexByte(rest, '/')+1:]))
		switch {
		case offers && binds:
			e.queue.Add(bindingName(ref{r.Plane, r.Binding}))
			continue
		case e.Shared && !offers && !binds:
			continue // of another fleet: those of this one go with their planes (Forget)
		}
		if err := removeRecord(ctx, e.DB, recordsPrefix+key); err != nil {
			return err
		}
	}
	if !e.loaded.Load() {
		e.queue.Add(loadAll)
	}
	return nil
}
