package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/bench/side"
)

// growth measures what things cost as there are more of them.
type growth struct {
	*bench
	sizes  sizes
	curves *curves
}

// sizes are how many of each there are, in growing order, and how long a side rests before the memory of objects is read.
type sizes struct {
	objects, watchers, crds, clients []int
	rest                             time.Duration
}

var (
	fullSizes = sizes{
		objects:  []int{10_000, 100_000, 1_000_000},
		watchers: []int{10, 30, 100, 300, 1000, 3000},
		crds:     []int{50, 150, 500, 1500, 5000},
		clients:  []int{1, 4, 16, 64, 256},
		rest:     24 * time.Second, // kanzen collects garbage of less than a quarter of a gigabyte after 16
	}
	quickSizes = sizes{objects: []int{100, 1000, 10_000}, watchers: []int{3, 30, 300}, crds: []int{5, 50, 500}, clients: []int{1, 16, 256}, rest: 3 * time.Second}
)

// grow measures kanzen, and with peer kube-apiserver, and writes the report into the directory out, if there is one.
func (b *bench) grow(ctx context.Context, quick, peer bool, out, which string) error {
	all := fullSizes
	if quick {
		all = quickSizes
	}
	b.pods = watchedPods
	found := &curves{}
	began := time.Now()
	names := fmt.Sprintf("kanzen (%s)", which)
	if peer {
		names += ", and kube-apiserver v1.37.2 with etcd in a process of its own"
		g := &growth{bench: b, sizes: all.tenth(), curves: found}
		if err := g.run(ctx, side.Peer); err != nil {
			return err
		}
	}
	g := &growth{bench: b, sizes: all, curves: found}
	if err := g.run(ctx, side.Kanzen); err != nil {
		return err
	}
	conditions := fmt.Sprintf("- %s, with fsync on\n- %s; servers and load generator share the machine\n- one run, in %.0f minutes, %s\n",
		names, side.Machine(), time.Since(began).Minutes(), time.Now().UTC().Format(time.DateOnly))
	fmt.Print(conditions, "\n", found.tables())
	if out == "" {
		return nil
	}
	return found.write(out, conditions)
}

// tenth leaves out what the peer would need too long for.
func (z sizes) tenth() sizes {
	z.objects, z.crds = below(z.objects), below(z.crds)
	return z
}

// below is the sizes up to a tenth of the largest.
func below(all []int) []int {
	var out []int
	for _, n := range all {
		if n <= all[len(all)-1]/10 {
			out = append(out, n)
		}
	}
	return out
}

const (
	configMapsPath = "/api/v1/namespaces/" + namespace + "/configmaps"
	// valueSize makes an object of 1 KB, with its metadata.
	valueSize = 750
	pageSize  = 500
	// growers create the objects: as many as let writes share the syncing of the disk.
	growers = 32
	// deliveries of a measurement of watchers, and the bounds of how many events these are.
	deliveries           = 60_000
	minEvents, maxEvents = 20, 2000
	// watchedPods are those whose changes the watchers get.
	watchedPods = 100
	// written are the objects that a growing number of clients write.
	written = 1000
)

// The parts, as -only has them.
const (
	clientsPart     = "clients"
	watchersPart    = "watchers"
	definitionsPart = "definitions"
	objectsPart     = "objects"
)

// growthParts are all, in the order in which they are measured.
var growthParts = []string{clientsPart, watchersPart, definitionsPart, objectsPart}

// run measures all curves of a side, each on fresh data.
func (g *growth) run(ctx context.Context, name string) error {
	measures := map[string]func(context.Context, *side.Side) error{
		clientsPart: g.clients, watchersPart: g.watching, definitionsPart: g.definitions, objectsPart: g.objects}
	for _, part := range growthParts {
		if !g.wants(part) {
			continue
		}
		if err := g.part(ctx, name, measures[part]); err != nil {
			return fmt.Errorf("%s: %s: %w", name, part, err)
		}
	}
	if name != side.Kanzen || !g.wants(clientsPart) {
		return nil
	}
	return g.clientsOfEtcd(ctx)
}

func (g *growth) part(ctx context.Context, name string, measure func(context.Context, *side.Side) error) error {
	var o side.Options
	if name == side.Kanzen {
		o.EtcdListens = true
		o.Flags = []string{"--etcd-quota-backend-bytes", "8589934592"} // a million objects, each written more than once
	}
	return onSide(ctx, name, g.programs, o, func(ctx context.Context, s *side.Side) error {
		if err := measure(ctx, s); err != nil {
			return fmt.Errorf("%w%s", err, s.Logs())
		}
		return nil
	})
}

// onSide starts a side on fresh data, and measures it when it has come to rest.
func onSide(ctx context.Context, name string, programs side.Programs, o side.Options, measure func(context.Context, *side.Side) error) error {
	s, err := side.Start(ctx, name, programs, o)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := setUp(ctx, s); err != nil {
		return err
	}
	if err := s.Calm(ctx); err != nil {
		return err
	}
	return measure(ctx, s)
}

// Panels of the drawing, and tables.
var (
	requestPanel  = panel{"Objects: processor time per request", "ConfigMaps of 1 KB", "ms"}
	objectsPanel  = panel{"Objects: resident memory", "ConfigMaps of 1 KB", "MiB"}
	ownPanel      = panel{"Objects: memory without mapped files", "ConfigMaps of 1 KB", "MiB"}
	restartPanel  = panel{"Objects: restart", "ConfigMaps of 1 KB", "ms"}
	deliveryPanel = panel{"Watchers: processor time per delivery", "watchers, a connection each", "µs"}
	latencyPanel  = panel{"Watchers: latency of a delivery", "watchers, a connection each", "ms"}
	crdPanel      = panel{"Definitions: processor time each", "definitions", "ms"}
	crdMemPanel   = panel{"Definitions: resident memory each", "definitions", "KiB"}
	clientPanel   = panel{"Clients: processor time per PUT", "clients, each waiting for its answer", "ms"}
	ratePanel     = panel{"Clients: PUTs per second", "clients, each waiting for its answer", ""}
)

func configMapName(i int) string { return fmt.Sprintf("o-%07d", i) }

func configMapText(i int) string { return side.Text(i, valueSize) }

// configMap is the i-th object in protobuf; version makes a difference between two writes of it.
func configMap(i, version int) string {
	return side.Sealed("v1", "ConfigMap", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configMapName(i), Namespace: namespace, Labels: map[string]string{"app": "growth", "tier": "back"}},
		Data:       map[string]string{"version": fmt.Sprint(version), "value": configMapText(i)},
	})
}

// createObjects is the load that creates objects from number from to number to, exclusively.
func createObjects(from, to int) load {
	return load{name: "create", clients: growers, round: to - from, once: true, request: func(i int) side.Request {
		return side.Request{Method: http.MethodPost, Path: configMapsPath, Accept: protobuf, ContentType: protobuf, Body: configMap(from+i, 0)}
	}}
}

// putObjects is the load that writes n objects in turn. Versions begin at first: one that was written before would change nothing.
func putObjects(n, clients, first int) load {
	return load{name: "put", clients: clients, round: 500, warm: max(50, 2*clients), keys: n, stored: configMapsPath + "/" + configMapName(0),
		request: func(i int) side.Request {
			at := (i * 7919) % n
			return side.Request{Method: http.MethodPut, Path: configMapsPath + "/" + configMapName(at), Accept: protobuf, ContentType: protobuf,
				Body: configMap(at, first+i)}
		}}
}

// objectLoads are what is measured on n objects.
func objectLoads(n, first int) []load {
	next := "" // of the pages; they have one client
	return []load{
		{name: "get", title: "GET", clients: 8, round: 1000, warm: 100, request: func(i int) side.Request {
			return side.Request{Method: http.MethodGet, Path: configMapsPath + "/" + configMapName(i*7919%n)}
		}},
		{name: "page", title: fmt.Sprintf("page of %d", pageSize), clients: 1, round: 20, warm: 2, check: items(min(pageSize, n)),
			request: func(int) side.Request {
				return side.Request{Method: http.MethodGet, Path: fmt.Sprintf("%s?limit=%d&continue=%s", configMapsPath, pageSize, url.QueryEscape(next))}
			},
			answered: func(_ int, body []byte) (err error) {
				next, err = continueToken(body)
				return err
			}},
		{name: "none", title: "list by a label that none has", clients: 1, round: 2, warm: 1, check: items(0), request: func(i int) side.Request {
			return side.Request{Method: http.MethodGet, Path: fmt.Sprintf("%s?labelSelector=app%%3Dnone-%d", configMapsPath, i)}
		}},
		func() load { l := putObjects(n, 8, first); l.title = "PUT"; return l }(),
	}
}

// continueToken says where the list goes on; after its last page it begins again.
func continueToken(body []byte) (string, error) {
	// metadata comes first: the items need not be read.
	var list struct {
		Metadata struct{ Continue string }
	}
	head, _, _ := bytes.Cut(body, []byte(`"items"`))
	head = append(bytes.TrimRight(bytes.Clone(head), ", \n"), '}')
	if err := json.Unmarshal(head, &list); err != nil {
		return "", fmt.Errorf("the metadata of a page: %w", err)
	}
	return list.Metadata.Continue, nil
}

// objects measures reads, a write, memory and the restart as objects become more.
func (g *growth) objects(ctx context.Context, s *side.Side) error {
	have, versions := 0, 1
	for _, n := range g.sizes.objects {
		began := time.Now()
		if err := g.more(ctx, s, have, n); err != nil {
			return err
		}
		progress("%s: %d objects, written %.0f/s", s.Name, n, float64(n-have)/time.Since(began).Seconds())
		have = n
		if s.Name == side.Kanzen { // the peer has two processes, of which etcd would not be restarted alike
			if err := g.restart(ctx, s, n); err != nil {
				return err
			}
		}
		for _, l := range objectLoads(n, versions) {
			c, err := g.cost(ctx, s, l)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			g.curves.add(requestPanel, s.Name, l.title, n, c.each())
			versions += 10_000_000 // more than there are requests
		}
		if err := g.resident(ctx, s, "after these requests", n); err != nil {
			return err
		}
	}
	return nil
}

// more writes the objects from number from to number to into the side's etcd: the first is created, the others are copies of
// what was stored. A million creations would take too long, and are not what is measured.
func (g *growth) more(ctx context.Context, s *side.Side, from, to int) error {
	if from == 0 {
		if err := g.fill(ctx, s, createObjects(0, 1)); err != nil {
			return err
		}
		from = 1
	}
	db, err := s.EtcdClient()
	if err != nil {
		return err
	}
	defer db.Close()
	return side.Copy(ctx, db, "/registry/configmaps/"+namespace+"/", from, to, configMapName, configMapText)
}

// restart measures the restart on n objects, up to the first answers. etcd replays up to 10,000 transactions of its log at a start,
// and those that made the copies have a hundred objects each, which no server writes: the first start, which replays them, is not
// measured.
func (g *growth) restart(ctx context.Context, s *side.Side, n int) error {
	for range 2 {
		if err := s.Restart(ctx); err != nil {
			return err
		}
	}
	g.curves.add(restartPanel, s.Name, "from exec to ready", n, ms(s.Ready))
	c := s.Client()
	defer c.Close()
	began := time.Now()
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: configMapsPath + "/" + configMapName(n/2)}, io.Discard); err != nil {
		return err
	}
	g.curves.add(restartPanel, s.Name, "the first GET after that", n, ms(time.Since(began)))
	if err := g.resident(ctx, s, "restarted, one GET", n); err != nil {
		return err
	}
	began = time.Now()
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: configMapsPath + "?labelSelector=app%3Dnone"}, io.Discard); err != nil {
		return err
	}
	g.curves.add(restartPanel, s.Name, "the first list by label", n, ms(time.Since(began)))
	return nil
}

// resident reads the memory once the side had time to give back what it does not need.
func (g *growth) resident(ctx context.Context, s *side.Side, what string, n int) error {
	if err := side.Sleep(ctx, g.sizes.rest); err != nil {
		return err
	}
	mib, err := s.RSS()
	if err != nil {
		return err
	}
	g.curves.add(objectsPanel, s.Name, what, n, mib)
	if mib, err = s.Anonymous(); err == nil {
		g.curves.add(ownPanel, s.Name, what, n, mib)
	}
	return err
}

// cost gives a side a load.
func (g *growth) cost(ctx context.Context, s *side.Side, l load) (cost, error) {
	send := newSender(l, s)
	defer send.close()
	if _, _, err := send.first(ctx); err != nil {
		return cost{}, err
	}
	if err := g.keepStored(ctx, s, l); err != nil {
		return cost{}, err
	}
	return g.repeat(ctx, s, send)
}

// watching measures deliveries as watchers become more.
func (g *growth) watching(ctx context.Context, s *side.Side) error {
	if err := g.fill(ctx, s, loads(g.pods)[0]); err != nil {
		return err
	}
	for _, n := range g.sizes.watchers {
		c, err := g.fanOut(ctx, s, n, n, min(max(deliveries/n, minEvents), maxEvents), watchName)
		if err != nil {
			return err
		}
		g.curves.add(deliveryPanel, s.Name, "delivery", n, c.cpu)
		g.curves.add(latencyPanel, s.Name, "median", n, ms(c.p50))
		g.curves.add(latencyPanel, s.Name, "99th percentile", n, ms(c.p99))
	}
	return nil
}

// definitions measures definitions that nobody uses: processor time of those that came since the size before, memory of all.
func (g *growth) definitions(ctx context.Context, s *side.Side) error {
	empty, err := s.RSS()
	if err != nil {
		return err
	}
	have := 0
	for _, n := range g.sizes.crds {
		before, err := s.CPU()
		if err != nil {
			return err
		}
		if _, err := define(ctx, s, have, n); err != nil {
			return err
		}
		if err := s.Calm(ctx); err != nil { // the peer goes on rendering for a while
			return err
		}
		after, err := s.CPU()
		if err != nil {
			return err
		}
		memory, err := s.RSS()
		if err != nil {
			return err
		}
		each, kib := ms(after-before)/float64(n-have), (memory-empty)*1024/float64(n)
		progress("%s: %d definitions: %.2f ms of CPU each of the last %d, %.0f KiB each", s.Name, n, each, n-have, kib)
		g.curves.add(crdPanel, s.Name, "create and serve one", n, each)
		g.curves.add(crdMemPanel, s.Name, "memory", n, kib)
		have = n
	}
	return nil
}

// clients measures writes as clients become more.
func (g *growth) clients(ctx context.Context, s *side.Side) error {
	if err := g.fill(ctx, s, createObjects(0, written)); err != nil {
		return err
	}
	versions := 1
	for _, n := range g.sizes.clients {
		c, err := g.cost(ctx, s, putObjects(written, n, versions))
		if err != nil {
			return err
		}
		g.addClients(s.Name, n, c)
		versions += 10_000_000
	}
	return nil
}

func (g *growth) addClients(name string, n int, c cost) {
	g.curves.add(clientPanel, name, "PUT", n, c.each())
	g.curves.add(ratePanel, name, "PUT", n, c.perSecond())
}

// clientsOfEtcd puts the same objects into a bare etcd, which is the limit.
func (g *growth) clientsOfEtcd(ctx context.Context) error {
	s, address, err := side.StartEtcd(g.programs)
	if err != nil {
		return err
	}
	defer s.Stop()
	for _, n := range g.sizes.clients {
		l := putObjects(written, n, 0)
		c, err := g.puts(ctx, s, address, l, string(g.stored[l.name]))
		if err != nil {
			return fmt.Errorf("%w%s", err, s.Logs())
		}
		g.addClients(s.Name, n, c)
	}
	return nil
}
