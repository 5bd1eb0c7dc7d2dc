package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/bench/side"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"

// leases are those of nodes, as they were last answered: a node sends its lease back with another renewTime.
type leases struct {
	mu   sync.Mutex
	last []*coordinationv1.Lease // guarded by mu; nil: not created yet
}

// leaseLoads are loads on n leases, in protobuf, as a kubelet creates its lease and renews it every ten seconds.
func leaseLoads(n int) []load {
	l := &leases{last: make([]*coordinationv1.Lease, n)}
	return []load{
		{
			name: "lease-create", title: "create a lease, protobuf", clients: 8, round: n + 50, warm: 50, once: true,
			request: func(i int) side.Request {
				if i < 50 || i >= n+50 { // not among those counted
					r := createLease(newLease(i, warmNamespace))
					r.Path = strings.Replace(r.Path, namespace, warmNamespace, 1)
					return r
				}
				return createLease(newLease(i-50, namespace))
			},
			answered: func(i int, body []byte) error {
				if i < 50 || i >= n+50 {
					return nil
				}
				return l.keep(i-50, body)
			},
			check:  isProtobuf,
			stored: strings.Replace(leasesPath, namespace, warmNamespace, 1) + "/" + leaseName(0),
		},
		{
			name: "lease-renew", title: "renew a lease (PUT, protobuf)", clients: 8, round: 3000, warm: 50,
			before: func(ctx context.Context, s *side.Side) (func() error, error) {
				return func() error { return nil }, l.complete(ctx, s)
			},
			request: func(i int) side.Request {
				l.mu.Lock()
				defer l.mu.Unlock()
				lease := l.last[i%n]
				now := metav1.NewMicroTime(time.UnixMicro(int64(i)))
				lease.Spec.RenewTime = &now
				return side.Request{Method: http.MethodPut, Path: leasesPath + "/" + lease.Name, Accept: protobuf, ContentType: protobuf, Body: sealed(lease)}
			},
			answered: func(i int, body []byte) error { return l.keep(i%n, body) },
			check:    isProtobuf,
			stored:   leasesPath + "/" + leaseName(0), keys: n,
		},
	}
}

func leaseName(i int) string { return fmt.Sprintf("node-%05d", i) }

func newLease(i int, namespace string) *coordinationv1.Lease {
	name, seconds, now := leaseName(i), int32(40), metav1.NewMicroTime(time.UnixMicro(0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))}}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

func createLease(l *coordinationv1.Lease) side.Request {
	return side.Request{Method: http.MethodPost, Path: leasesPath, Accept: protobuf, ContentType: protobuf, Body: sealed(l)}
}

func sealed(l *coordinationv1.Lease) string { return side.Sealed("coordination.k8s.io/v1", "Lease", l) }

// keep remembers an answer.
func (l *leases) keep(i int, body []byte) error {
	lease := &coordinationv1.Lease{}
	if err := side.Unseal(body, lease); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[i] = lease
	return nil
}

// complete creates the leases that are not there.
func (l *leases) complete(ctx context.Context, s *side.Side) error {
	c := s.Client()
	defer c.Close()
	for i := range l.last {
		l.mu.Lock()
		have := l.last[i] != nil
		l.mu.Unlock()
		if have {
			continue
		}
		var body bytes.Buffer
		if err := c.Do(ctx, createLease(newLease(i, namespace)), &body); err != nil {
			return err
		}
		if err := l.keep(i, body.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
