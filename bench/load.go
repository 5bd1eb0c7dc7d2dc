package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kanzen-io/kanzen/bench/side"
)

// load is a kind of request, sent many times by a number of clients.
type load struct {
	name    string // as -only has it
	title   string
	clients int
	// round is how many requests are sent before anybody looks at the clock;
	// once says that there is one round only, however short.
	round int
	once  bool
	reads bool // changes nothing
	// warm is how many are sent before the first round and not counted.
	warm int
	// request is the i-th request. Warm-up has the first numbers.
	request func(i int) side.Request
	// check judges the body of the first answer. May be nil.
	check func(body []byte) error
	// answered is told the answer to the i-th request. May be nil: then answers are not kept.
	answered func(i int, body []byte) error
	// before prepares a side, and returns what undoes that. May be nil.
	before func(ctx context.Context, s *side.Side) (after func() error, err error)
	// bare is the name under which the bare server serves the same bytes, if it does.
	bare string
	// stored is the path of an object that the load writes: as many bytes as it has in protobuf are put into a bare etcd, which
	// is the limit of such writes. Empty: they are not.
	stored string
	// keys is how many keys these puts go over; zero: each has a key of its own, as creations have.
	keys int
}

// concerns says whether a load is measured on a side. What only reads is answered from memory: which engine there is makes no difference to it.
func (l load) concerns(name string) bool {
	return name != side.Pebble || !l.reads
}

const (
	namespace = "bench"
	podsPath  = "/api/v1/namespaces/" + namespace + "/pods"
	protobuf  = side.Protobuf
	// shards is how many labels and nodes the pods are spread over; a selector picks one.
	shards = 100
	// patched and marker are annotations: of the merge patches and of the writes
	// that watchers wait for. Were they one, the latter might change nothing.
	patched = "bench.example.com/patched"
	marker  = "bench.example.com/mark"
)

var (
	//go:embed pod.json
	podJSON string
	//go:embed status.json
	statusJSON string
)

func podName(i int) string { return fmt.Sprintf("storefront-7c9d8f6b5d-%05d", i) }

func podBody(i int, namespace string) string {
	return compact(strings.NewReplacer("$NAMESPACE", namespace, "$NAME", podName(i), "$SHARD", strconv.Itoa(i%shards)).Replace(podJSON))
}

func statusBody(i int) string {
	return compact(strings.ReplaceAll(statusJSON, "$BEAT", strconv.Itoa(i)))
}

func compact(s string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		panic(err) // the files are embedded and do not change
	}
	return b.String()
}

// loads are all loads on a number of pods, in the order in which they are
// given: each finds what those before it left behind.
func loads(pods int) []load {
	list := func(query, accept, encoding string) func(int) side.Request {
		return func(int) side.Request {
			return side.Request{Method: http.MethodGet, Path: podsPath + query, Accept: accept, Encoding: encoding}
		}
	}
	shard := pods/shards + min(1, max(0, pods%shards-7)) // how many i < pods have i%shards == 7
	return append([]load{
		{
			name: "create", title: "create a pod", clients: 8, round: pods + 50, warm: 50, once: true,
			request: func(i int) side.Request {
				r := side.Request{Method: http.MethodPost, Path: podsPath + "?fieldManager=kube-controller-manager", ContentType: "application/json"}
				if i < 50 || i >= pods+50 { // not among those counted
					r.Path, r.Body = strings.Replace(r.Path, namespace, warmNamespace, 1), podBody(i, warmNamespace)
				} else {
					r.Body = podBody(i-50, namespace)
				}
				return r
			},
			stored: strings.Replace(podsPath, namespace, warmNamespace, 1) + "/" + podName(0),
		},
		{
			name: "patch-status", title: "patch a pod's status (strategic merge)", clients: 8, round: pods, warm: 50,
			stored: podsPath + "/" + podName(0), keys: pods,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodPatch, Path: podsPath + "/" + podName(i%pods) + "/status?fieldManager=kubelet",
					ContentType: "application/strategic-merge-patch+json", Body: statusBody(i)}
			},
		},
		{
			name: "get", reads: true, title: "get a pod", clients: 8, round: 5000, warm: 500,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodGet, Path: podsPath + "/" + podName(i*7919%pods)}
			},
			bare: "get",
		},
		{
			name: "list-json", reads: true, title: "list all pods, JSON", clients: 1, round: 10, warm: 2,
			request: list("", "", ""), check: items(pods), bare: "list-json",
		},
		{
			name: "list-gzip", reads: true, title: "list all pods, JSON, gzip", clients: 1, round: 5, warm: 2,
			request: list("", "", "gzip"),
		},
		{
			name: "list-protobuf", reads: true, title: "list all pods, protobuf", clients: 1, round: 10, warm: 2,
			request: list("", protobuf, ""), check: isProtobuf, bare: "list-protobuf",
		},
		{
			name: "list-label", reads: true, title: "list the 1% with a label, JSON", clients: 4, round: 500, warm: 50,
			request: list("?labelSelector=shard%3Dshard-7", "", ""), check: items(shard), bare: "list-label",
		},
		{
			name: "list-node", reads: true, title: "list the 1% on a node, JSON", clients: 4, round: 500, warm: 50,
			request: list("?fieldSelector=spec.nodeName%3Dnode-7", "", ""), check: items(shard), bare: "list-node",
		},
		{
			name: "patch-merge", title: "patch a pod's annotation (merge)", clients: 8, round: 1000, warm: 50,
			request: func(i int) side.Request { return annotate(i, pods, patched) },
		},
		{
			name: "apply", title: "apply a pod's labels (server-side)", clients: 8, round: 1000, warm: 50,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodPatch, Path: podsPath + "/" + podName(i%pods) + "?fieldManager=bench-apply&force=true",
					ContentType: "application/apply-patch+yaml", Body: fmt.Sprintf(
						`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"example.com/wave":"wave-%d"},"annotations":{"example.com/owner":"team-%d"}}}`,
						podName(i%pods), i, i)}
			},
		},
		{
			name: "apply-same", title: "apply what a pod has already (server-side)", clients: 8, round: 1000, warm: pods,
			request: func(i int) side.Request {
				return side.Request{Method: http.MethodPatch, Path: podsPath + "/" + podName(i%pods) + "?fieldManager=bench-same&force=true",
					ContentType: "application/apply-patch+yaml", Body: fmt.Sprintf(
						`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"example.com/same":"yes"},"annotations":{"example.com/team":"team-1"}}}`, podName(i%pods))}
			},
		},
		{
			name: "apply-new", title: "apply a new ConfigMap (server-side)", clients: 8, round: 500, warm: 50,
			request: func(i int) side.Request {
				name := fmt.Sprintf("settings-%06d", i)
				return side.Request{Method: http.MethodPatch, Path: "/api/v1/namespaces/" + namespace + "/configmaps/" + name + "?fieldManager=bench-apply&force=true",
					ContentType: "application/apply-patch+yaml", Body: fmt.Sprintf(
						`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"storefront"}},"data":{"level":"info","replicas":"3","text":%q}}`,
						name, strings.Repeat("setting ", 100))}
			},
			stored: "/api/v1/namespaces/" + namespace + "/configmaps/settings-000000",
		},
	}, slices.Concat(leaseLoads(pods), admissionLoads())...)
}

const warmNamespace = "warm"

// annotate is the i-th merge patch: it changes an annotation to i.
func annotate(i, pods int, name string) side.Request {
	return side.Request{Method: http.MethodPatch, Path: podsPath + "/" + podName(i%pods) + "?fieldManager=bench",
		ContentType: "application/merge-patch+json", Body: fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, name, i)}
}

// setUp makes the namespaces and service accounts that pods need.
func setUp(ctx context.Context, s *side.Side) error {
	for _, ns := range []string{warmNamespace, namespace} {
		if err := namespaceWithAccount(ctx, s, ns); err != nil {
			return err
		}
	}
	return nil
}

// namespaceWithAccount makes a namespace that pods can be in.
func namespaceWithAccount(ctx context.Context, s *side.Side, ns string) error {
	if err := post(ctx, s, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+ns+`"}}`); err != nil {
		return err
	}
	return post(ctx, s, "/api/v1/namespaces/"+ns+"/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`)
}

// items checks that a JSON list has so many items.
func items(want int) func([]byte) error {
	return func(body []byte) error {
		var list struct{ Items []struct{} }
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		if len(list.Items) != want {
			return fmt.Errorf("the list has %d items, not %d", len(list.Items), want)
		}
		return nil
	}
}

func isProtobuf(body []byte) error {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return fmt.Errorf("the answer is not protobuf: %.40q", body)
	}
	return nil
}

// sender sends a load's requests, one connection a client, numbering them on.
type sender struct {
	load    load
	clients []connection
	next    atomic.Int64
}

// connection is one client's.
type connection interface {
	// do prepares the i-th request, and returns how long it took to answer it.
	do(ctx context.Context, l load, i int, answer *bytes.Buffer) (time.Duration, error)
	Close()
}

func newSender(l load, to *side.Side) *sender {
	s := &sender{load: l}
	for range l.clients {
		s.clients = append(s.clients, httpConnection{to.Client()})
	}
	return s
}

func (s *sender) close() {
	for _, c := range s.clients {
		c.Close()
	}
}

// httpConnection is one to an API server, or to the bare server.
type httpConnection struct{ *side.Client }

func (c httpConnection) do(ctx context.Context, l load, i int, answer *bytes.Buffer) (time.Duration, error) {
	to := io.Writer(io.Discard)
	if l.answered != nil && answer == nil {
		answer = &bytes.Buffer{}
	}
	if answer != nil {
		to = answer
	}
	r := l.request(i)
	began := time.Now()
	err := c.Do(ctx, r, to)
	if err == nil && l.answered != nil {
		err = l.answered(i, answer.Bytes())
	}
	return time.Since(began), err
}

// first sends one request and returns the answer's body and how long it took.
func (s *sender) first(ctx context.Context) ([]byte, time.Duration, error) {
	var body bytes.Buffer
	took, err := s.clients[0].do(ctx, s.load, int(s.next.Add(1)-1), &body)
	if err == nil && s.load.check != nil {
		err = s.load.check(body.Bytes())
	}
	return body.Bytes(), took, err
}

// send sends requests up to number end, exclusively, and returns how long each took.
func (s *sender) send(ctx context.Context, end int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, len(s.clients))
	var wg sync.WaitGroup
	for n, c := range s.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(s.next.Add(1) - 1)
				if i >= end {
					return
				}
				t, err := c.do(ctx, s.load, i, nil)
				if err != nil {
					cancel(err)
					return
				}
				took[n] = append(took[n], t)
			}
		})
	}
	wg.Wait()
	s.next.Store(int64(end)) // each client went one too far
	return slices.Concat(took...), context.Cause(ctx)
}
