//go:build linux

package main

import (
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestServiceName(t *testing.T) {
	for name, want := range map[string]string{
		"a.b.svc.cluster.local.": "a/b", "a.b.svc.": "a/b", "a.b.": "a/b", "www.example.com.": "", "a.": "", ".": "", "x.a.b.svc.cluster.local.": "", "_config.a.svc.": "",
	} {
		service, namespace, is := serviceName(name)
		if got := service + "/" + namespace; is != (want != "") || is && got != want {
			t.Errorf("%s: %s, %v", name, got, is)
		}
	}
}

func TestAnswerDNS(t *testing.T) {
	lookup := func(service, namespace string) []netip.Addr {
		if service == "a" && namespace == "b" {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
		}
		return nil
	}
	for _, c := range []struct {
		name    string
		kind    dnsmessage.Type
		answers int
		code    dnsmessage.RCode
	}{
		{"a.b.svc.cluster.local.", dnsmessage.TypeA, 2, dnsmessage.RCodeSuccess},
		{"a.b.svc.cluster.local.", dnsmessage.TypeAAAA, 0, dnsmessage.RCodeSuccess},
		{"c.b.svc.cluster.local.", dnsmessage.TypeA, 0, dnsmessage.RCodeNameError},
		{"www.example.com.", dnsmessage.TypeA, 0, dnsmessage.RCodeNameError},
	} {
		q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(c.name), Type: c.kind, Class: dnsmessage.ClassINET}}}
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		b, err = answerDNS(b, lookup)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(b); err != nil {
			t.Fatal(err)
		}
		if m.ID != 7 || !m.Response || m.RCode != c.code || len(m.Answers) != c.answers {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
	if _, err := answerDNS([]byte("no question"), lookup); err == nil {
		t.Error("nonsense is answered")
	}
}
