//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/machine"
)

// serveDNS answers what pods ask for names of services, until the context ends. There is no kube-proxy, so a name has the addresses of the service's
// endpoints, as that of a service without an address has.
func serveDNS(ctx context.Context, client kubernetes.Interface) error {
	conn, err := net.ListenPacket("udp", machine.Address+":53")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	lookup := func(service, namespace string) []netip.Addr {
		addresses, err := endpoints(ctx, client, service, namespace)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "endpoints of %s/%s: %v\n", namespace, service, err)
		}
		return addresses
	}
	go func() {
		question := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(question)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			if answer, err := answerDNS(question[:n], lookup); err == nil {
				_, _ = conn.WriteTo(answer, from) // whoever gets none asks again
			}
		}
	}()
	return nil
}

// endpoints are the addresses of those of a service that are ready.
func endpoints(ctx context.Context, client kubernetes.Interface, service, namespace string) (addresses []netip.Addr, err error) {
	slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				address, err := netip.ParseAddr(a)
				if err != nil {
					return nil, err
				}
				addresses = append(addresses, address)
			}
		}
	}
	return addresses, nil
}

// answerDNS answers a question. Names that are not of services do not exist.
func answerDNS(question []byte, lookup func(service, namespace string) []netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	if len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Answers, m.Authorities, m.Additionals = true, true, nil, nil, nil
	m.RCode = dnsmessage.RCodeNameError
	if service, namespace, is := serviceName(q.Name.String()); is {
		for _, a := range lookup(service, namespace) {
			m.RCode = dnsmessage.RCodeSuccess
			if q.Type == dnsmessage.TypeA && a.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: a.As4()}})
			}
		}
	}
	return m.Pack()
}

// serviceName reads SERVICE.NAMESPACE, with or without .svc and the domain. Names that begin with an underscore are of other records.
func serviceName(name string) (service, namespace string, is bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "."), "."+machine.Domain)
	parts := strings.Split(strings.TrimSuffix(name, ".svc"), ".")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" || parts[0][0] == '_' {
		return "", "", false
	}
	return parts[0], parts[1], true
}
