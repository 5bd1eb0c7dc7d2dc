package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/bench/side"
)

const (
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	slicesPath = "/apis/discovery.k8s.io/v1/endpointslices"
	renewal    = 10 * time.Second
	report     = 5 * time.Minute
)

// fleet are nodes, and what they did.
type fleet struct {
	server *side.Side
	nodes  []*node

	leases, statuses, creates, podStatuses, deletes, deliveries atomic.Int64
	failed                                                      atomic.Int64
	mu                                                          sync.Mutex
	first                                                       error           // guarded by mu; of what failed
	took, wrote                                                 []time.Duration // guarded by mu; of renewals, and of writes of pods
}

// node is a kubelet and a kube-proxy, with a connection each.
type node struct {
	name           string
	kubelet, proxy *side.Client
	lease          *coordinationv1.Lease
}

func (f *fleet) did() work {
	return work{f.leases.Load(), f.statuses.Load(), f.creates.Load(), f.podStatuses.Load(), f.deletes.Load(), f.deliveries.Load()}
}

// fail keeps the first error.
func (f *fleet) fail(err error) {
	f.failed.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = err
	}
}

// note keeps what a request took.
func (f *fleet) note(of *[]time.Duration, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*of = append(*of, took)
}

// times returns what renewals and writes of pods took since the last call.
func (f *fleet) times() (leases, writes times) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leases, writes = timesOf(f.took), timesOf(f.wrote)
	f.took, f.wrote = nil, nil
	return leases, writes
}

// times are what some requests took, in ms.
type times struct{ median, p99 float64 }

func timesOf(took []time.Duration) times {
	ms := func(p float64) float64 { return float64(side.Percentile(took, p)) / float64(time.Millisecond) }
	return times{ms(50), ms(99)}
}

func token(name string) string { return "token-of-" + name }

// register makes a node and its lease.
func (f *fleet) register(ctx context.Context, name string) (*node, error) {
	n := &node{name: name, kubelet: side.NewClient(f.server.URL, token(name)), proxy: side.NewClient(f.server.URL, token("proxy"))}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/hostname":%q}}}`, name, name)
	if err := n.kubelet.Create(ctx, "/api/v1/nodes", body); err != nil {
		return nil, err
	}
	seconds, now := int32(40), metav1.NowMicro()
	n.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-node-lease"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}}
	if err := n.sendLease(ctx, http.MethodPost, leasePath); err != nil {
		return nil, err
	}
	return n, f.report(ctx, n)
}

func (n *node) sendLease(ctx context.Context, method, path string) error {
	var body bytes.Buffer
	if err := n.kubelet.Do(ctx, side.Request{Method: method, Path: path, Accept: side.Protobuf, ContentType: side.Protobuf,
		Body: side.Sealed("coordination.k8s.io/v1", "Lease", n.lease)}, &body); err != nil {
		return err
	}
	var lease coordinationv1.Lease
	if err := side.Unseal(body.Bytes(), &lease); err != nil {
		return err
	}
	n.lease = &lease
	return nil
}

// report patches the node's status, as a kubelet does.
func (f *fleet) report(ctx context.Context, n *node) error {
	now := time.Now().UTC().Format(time.RFC3339)
	body := `{"status":{"allocatable":{"cpu":"32","memory":"256Gi","pods":"110"},"capacity":{"cpu":"32","memory":"256Gi","pods":"110"},"conditions":[`
	for i, c := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		if i > 0 {
			body += ","
		}
		body += fmt.Sprintf(`{"type":%q,"status":"%v","reason":"KubeletSays","message":"as the kubelet sees it","lastHeartbeatTime":%q,"lastTransitionTime":%q}`,
			c, map[bool]string{true: "True", false: "False"}[c == "Ready"], now, now)
	}
	return n.kubelet.Do(ctx, side.Request{Method: http.MethodPatch, Path: "/api/v1/nodes/" + n.name + "/status", Accept: side.Protobuf,
		ContentType: "application/strategic-merge-patch+json", Body: body + `]}}`}, io.Discard)
}

// live renews the lease and reports until ctx ends, beginning at a random moment.
func (f *fleet) live(ctx context.Context, n *node) {
	nextLease := time.Now().Add(rand.N(renewal))
	nextReport := time.Now().Add(rand.N(report))
	for {
		if side.Sleep(ctx, time.Until(nextLease)) != nil {
			return
		}
		now := metav1.NowMicro()
		n.lease.Spec.RenewTime = &now
		began := time.Now()
		if err := n.sendLease(ctx, http.MethodPut, leasePath+"/"+n.name); err != nil {
			if ctx.Err() != nil {
				return
			}
			f.fail(err)
		}
		f.leases.Add(1)
		f.note(&f.took, time.Since(began))
		if time.Now().After(nextReport) {
			if err := f.report(ctx, n); err != nil && ctx.Err() == nil {
				f.fail(err)
			}
			f.statuses.Add(1)
			nextReport = nextReport.Add(report)
		}
		nextLease = nextLease.Add(renewal)
	}
}

// watchesPerNode is how many watches watch opens.
const watchesPerNode = 8

// watch opens the watches of a kubelet and a kube-proxy, and reads them until ctx ends. It returns when all are open.
func (f *fleet) watch(ctx context.Context, n *node, wg *sync.WaitGroup) error {
	own := "?fieldSelector=metadata.name%3D" + n.name + "&"
	for i, path := range []string{"/api/v1/pods?fieldSelector=spec.nodeName%3D" + n.name + "&", "/api/v1/nodes" + own, "/api/v1/services?",
		"/apis/storage.k8s.io/v1/csidrivers?", "/apis/node.k8s.io/v1/runtimeclasses?",
		"/api/v1/services?", slicesPath + "?", "/api/v1/nodes" + own} {
		c := n.kubelet
		if i >= 5 {
			c = n.proxy
		}
		res, err := c.Open(ctx, side.Request{Method: http.MethodGet, Path: path + "watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=3600",
			Accept: side.Protobuf + ";stream=watch"})
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer res.Body.Close()
			f.read(ctx, res.Body)
		})
	}
	return nil
}

// read counts the events of a watch.
func (f *fleet) read(ctx context.Context, from io.Reader) {
	var head [4]byte
	for {
		_, err := io.ReadFull(from, head[:])
		if err == nil {
			_, err = io.CopyN(io.Discard, from, int64(binary.BigEndian.Uint32(head[:])))
		}
		if err != nil {
			if ctx.Err() == nil {
				f.fail(errors.Join(errors.New("a watch ended"), err))
			}
			return
		}
		f.deliveries.Add(1)
	}
}
