package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// names of what is measured on custom resources and is no load.
const (
	crdsName     = "crds"
	crdsManyName = "crds-many"
)

var crdSection = section{"Custom resources",
	"Each definition (CRD) has 60 documented fields. The cost of one is the total, read after the quiet time, divided by their number."}

const (
	crdsPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	crdFields   = 60 // of the specification
	crdStatuses = 5  // of the status
	// servedTimeout is how long a definition may take to be served.
	servedTimeout = 2 * time.Minute
)

// crdGroup is the group of the i-th definition; each has one of its own.
func crdGroup(i int) string { return fmt.Sprintf("g%d.bench.example.com", i) }

// crdBody is the i-th definition.
func crdBody(i int) string {
	schema := object{"type": "object", "description": "Thing is a thing", "properties": object{
		"apiVersion": object{"type": "string"}, "kind": object{"type": "string"}, "metadata": object{"type": "object"},
		"spec":   object{"type": "object", "properties": fields(crdFields)},
		"status": object{"type": "object", "properties": fields(crdStatuses)},
	}}
	return encode(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "things." + crdGroup(i)},
		"spec": object{
			"group": crdGroup(i), "scope": "Namespaced",
			"names": object{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": schema},
			}},
		},
	})
}

type object = map[string]any

// fields are n properties of five types in turn, documented as those of real
// projects are.
func fields(n int) object {
	out := object{}
	for i := range n {
		text := fmt.Sprintf("The field number %d of the specification, which says how the thing behaves when the moon is full and when it is not; "+
			"see the documentation of the project for all that may be put here.", i)
		out[fmt.Sprintf("field%d", i)] = []object{
			{"type": "string", "maxLength": 63, "description": text},
			{"type": "integer", "minimum": 0, "description": text},
			{"type": "boolean", "default": true, "description": text},
			{"type": "array", "items": object{"type": "string"}, "description": text},
			{"type": "object", "description": text, "properties": object{"name": object{"type": "string", "description": text}, "key": object{"type": "string"}}},
		}[i%5]
	}
	return out
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return string(b)
}

// define creates definitions from number from to number to, exclusively, and
// waits until the last is served. It returns how long that took after the last
// was created.
func define(ctx context.Context, s *side.Side, from, to int) (time.Duration, error) {
	c := s.Client()
	defer c.Close()
	for i := from; i < to; i++ {
		r := side.Request{Method: http.MethodPost, Path: crdsPath, ContentType: "application/json", Body: crdBody(i)}
		if err := c.Do(ctx, r, io.Discard); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for {
		err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: crPath(to-1, "")}, io.Discard)
		took := time.Since(began)
		if err == nil {
			return took, nil
		}
		if took > servedTimeout {
			return 0, fmt.Errorf("not served after %v: %w", took, err)
		}
		if err := side.Sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// crPath is where the custom resources of the i-th definition are.
func crPath(i int, namespace string) string {
	path := "/apis/" + crdGroup(i) + "/v1/"
	if namespace != "" {
		path += "namespaces/" + namespace + "/"
	}
	return path + "things"
}

// wantsAny says whether any of some measures is wanted.
func (b *bench) wantsAny(names ...string) bool {
	for _, n := range names {
		if b.wants(n) {
			return true
		}
	}
	return false
}

// measureCustom starts a side on fresh data and measures definitions, and then
// the custom resources of one of them.
func (b *bench) measureCustom(ctx context.Context, name string) error {
	if !b.wantsAny(append(loadNames(customLoads(b.crs)), crdsName)...) {
		return nil
	}
	s, err := side.Start(ctx, name, b.programs, side.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := setUp(ctx, s); err != nil {
		return err
	}
	if err := side.Sleep(ctx, b.quiet); err != nil {
		return err
	}
	if b.wants(crdsName) && name != side.Pebble {
		err = b.definitions(ctx, s)
	} else {
		_, err = define(ctx, s, 0, 1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", crdsName, err, s.Logs())
	}
	if err := s.Calm(ctx); err != nil {
		return err
	}
	return b.loadAll(ctx, s, customLoads(b.crs))
}

// definitions measures what definitions cost that nobody uses.
func (b *bench) definitions(ctx context.Context, s *side.Side) error {
	memory, err := s.RSS()
	if err != nil {
		return err
	}
	cpu, err := s.CPU()
	if err != nil {
		return err
	}
	served, err := define(ctx, s, 0, b.crds)
	if err != nil {
		return err
	}
	if err := side.Sleep(ctx, b.quiet); err != nil {
		return err
	}
	memoryThen, err := s.RSS()
	if err != nil {
		return err
	}
	cpuThen, err := s.CPU()
	if err != nil {
		return err
	}
	n := float64(b.crds)
	each, kib := ms(cpuThen-cpu)/n, (memoryThen-memory)*1024/n
	progress("%s: %d definitions: the last served after %.1f ms, %.2f ms of CPU and %.0f KiB each", s.Name, b.crds, ms(served), each, kib)
	row := fmt.Sprintf("%d definitions: ", b.crds)
	b.results.add(crdSection, row+"the last is served after", "ms", s.Name, ms(served))
	b.results.add(crdSection, row+"processor time each", "ms", s.Name, each)
	b.results.add(crdSection, row+"resident memory each", "KiB", s.Name, kib)
	return nil
}

// customName is the name of the i-th custom resource.
func customName(i int) string { return fmt.Sprintf("thing-%05d", i) }

// customBody is the i-th custom resource, with a value in each field.
func customBody(i int, namespace string) string {
	spec := object{}
	for k := range crdFields {
		spec[fmt.Sprintf("field%d", k)] = []any{
			fmt.Sprintf("value-%d", i), i, true, []any{"a", "b", "c"}, object{"name": "x", "key": "y"},
		}[k%5]
	}
	return encode(object{"apiVersion": crdGroup(0) + "/v1", "kind": "Thing", "spec": spec,
		"metadata": object{"name": customName(i), "namespace": namespace, "labels": object{"shard": fmt.Sprint("s", i%shards)}}})
}

// customLoads are the loads on n custom resources of the first definition.
func customLoads(n int) []load {
	one := func(i int) string { return crPath(0, namespace) + "/" + customName(i%n) }
	return []load{
		{
			name: "cr-create", title: "create a custom resource", clients: 8, round: n + 50, warm: 50, once: true,
			request: func(i int) side.Request {
				ns, nr := namespace, i-50
				if i < 50 || i >= n+50 { // not among those counted
					ns, nr = warmNamespace, i
				}
				return side.Request{Method: http.MethodPost, Path: crPath(0, ns) + "?fieldManager=bench", ContentType: "application/json", Body: customBody(nr, ns)}
			},
		},
		{
			name: "cr-list", reads: true, title: "list all custom resources", clients: 1, round: 5, warm: 2, check: items(n),
			request: func(int) side.Request { return side.Request{Method: http.MethodGet, Path: crPath(0, namespace)} },
		},
		{
			name: "cr-get", reads: true, title: "get a custom resource", clients: 8, round: 5000, warm: 500,
			request: func(i int) side.Request { return side.Request{Method: http.MethodGet, Path: one(i * 7919)} },
		},
		{
			name: "cr-patch", title: "patch a custom resource (merge)", clients: 8, round: 1000, warm: 50,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodPatch, Path: one(i) + "?fieldManager=bench", ContentType: "application/merge-patch+json",
					Body: fmt.Sprintf(`{"spec":{"field1":%d}}`, n+i)}
			},
		},
		{
			name: "cr-apply", title: "apply a custom resource (server-side)", clients: 8, round: 1000, warm: 50,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodPatch, Path: one(i) + "?fieldManager=bench-apply&force=true", ContentType: "application/apply-patch+yaml",
					Body: fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","spec":{"field0":"wave-%d"}}`, crdGroup(0), i)}
			},
		},
	}
}

// measureMany measures on kanzen alone what no cluster has today: definitions
// by the thousand, all in use.
func (b *bench) measureMany(ctx context.Context) error {
	if !b.wants(crdsManyName) {
		return nil
	}
	s, err := side.Start(ctx, side.Kanzen, b.programs, side.Options{})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := b.many(ctx, s); err != nil {
		return fmt.Errorf("%s: %w%s", crdsManyName, err, s.Logs())
	}
	return nil
}

func (b *bench) many(ctx context.Context, s *side.Side) error {
	row := fmt.Sprintf("%d definitions: ", b.manyCRDs)
	add := func(what, unit string, value float64) {
		progress("%s: %s%s %.1f %s", s.Name, row, what, value, unit)
		b.results.add(crdSection, row+what, unit, s.Name, value)
	}
	began := time.Now()
	served, err := define(ctx, s, 0, b.manyCRDs)
	if err != nil {
		return err
	}
	add("created within", "s", time.Since(began).Seconds())
	add("the last is served after", "ms", ms(served))
	c := s.Client()
	defer c.Close()
	var groups strings.Builder
	began = time.Now()
	discovery := side.Request{Method: http.MethodGet, Path: "/apis", Accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
	if err := c.Do(ctx, discovery, &groups); err != nil {
		return err
	}
	add("aggregated discovery", "ms", ms(time.Since(began)))
	if got := strings.Count(groups.String(), `.bench.example.com"}`); got < b.manyCRDs {
		return fmt.Errorf("aggregated discovery has %d of %d groups", got, b.manyCRDs)
	}
	if err := b.manyMemory(ctx, s, add, "resident memory"); err != nil {
		return err
	}
	before, err := s.CPU()
	if err != nil {
		return err
	}
	if err := listEach(ctx, s, b.manyCRDs); err != nil {
		return err
	}
	after, err := s.CPU()
	if err != nil {
		return err
	}
	add("processor time of the first list of each", "ms", ms(after-before)/float64(b.manyCRDs))
	if err := b.manyMemory(ctx, s, add, "resident memory, each listed once"); err != nil {
		return err
	}
	if err := s.Restart(ctx); err != nil {
		return err
	}
	add("restart, from exec to ready", "ms", ms(s.Ready))
	began = time.Now()
	if err := c.Do(ctx, side.Request{Method: http.MethodGet, Path: crPath(b.manyCRDs-1, "")}, io.Discard); err != nil {
		return err
	}
	add("first list after ready", "ms", ms(time.Since(began)))
	return nil
}

func (b *bench) manyMemory(ctx context.Context, s *side.Side, add func(string, string, float64), what string) error {
	if err := side.Sleep(ctx, b.quiet); err != nil {
		return err
	}
	mib, err := s.RSS()
	if err == nil {
		add(what, "MiB", mib)
	}
	return err
}

// listEach lists the custom resources of each definition.
func listEach(ctx context.Context, s *side.Side, n int) error {
	const clients = 4
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for k := range clients {
		wg.Go(func() {
			c := s.Client()
			defer c.Close()
			for i := k; i < n && errs[k] == nil; i += clients {
				errs[k] = c.Do(ctx, side.Request{Method: http.MethodGet, Path: crPath(i, "")}, io.Discard)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
