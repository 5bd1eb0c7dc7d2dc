package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// validated returns what Validate says about a flag of a Config that f changed; "": nothing.
func validated(flag string, f func(c *Config)) string {
	c := Default()
	f(&c)
	_, _, err := c.Validate()
	for _, line := range strings.Split(fmt.Sprint(err), "\n") {
		if strings.HasPrefix(line, "--"+flag+":") {
			return line
		}
	}
	return ""
}

// TestEtcdPrefix has the prefixes that kube-apiserver takes, and what it makes of them.
func TestEtcdPrefix(t *testing.T) {
	for given, want := range map[string]string{
		"/registry": "/registry/", "abc/registry": "/abc/registry/", "/registry/": "/registry/", "a//b/": "/a/b/", "../a": "/a/",
	} {
		c := Plane{EtcdPrefix: given}
		if got := c.KeyPrefix(); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
		if says := validated("etcd-prefix", func(c *Config) { c.EtcdPrefix = given }); says != "" {
			t.Error(says)
		}
	}
	for _, given := range []string{"", "/", "//", ".."} { // all that is in etcd would be the server's
		if validated("etcd-prefix", func(c *Config) { c.EtcdPrefix = given }) == "" {
			t.Errorf("%q is taken", given)
		}
	}
}

// TestEtcdTimeouts gives those that kube-apiserver takes: 0 is its default.
func TestEtcdTimeouts(t *testing.T) {
	for d, refused := range map[time.Duration]bool{0: false, time.Second: false, -time.Second: true} {
		for flag, set := range map[string]func(c *Config){
			"etcd-healthcheck-timeout": func(c *Config) { c.EtcdHealthTimeout = d },
			"etcd-readycheck-timeout":  func(c *Config) { c.EtcdReadyTimeout = d },
		} {
			if says := validated(flag, set); (says != "") != refused {
				t.Errorf("--%s=%v: %q", flag, d, says)
			}
		}
	}
}

func TestEtcdOverridden(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string // of what is returned; "": an error
	}{
		{nil, "[]"},
		{[]string{"/events#http://a:2379;http://b:2379"}, "[{[http://a:2379 http://b:2379] [events]}]"},
		{[]string{"/events#a;b", "apps/deployments#b;a", "/nodes#c"}, "[{[a b] [events deployments.apps]} {[c] [nodes]}]"},
		{[]string{"/events#a", "/events#b"}, "[{[a] []} {[b] [events]}]"},
		{[]string{"/events"}, ""},
		{[]string{"events#a"}, ""},
		{[]string{"a/b/c#d"}, ""},
		{[]string{"/events#a;;b"}, ""},
		{[]string{"/events#"}, ""},
		{[]string{"/events#a#b"}, ""},
	} {
		got, err := (&Process{EtcdOverrides: c.values}).EtcdOverridden()
		if text := fmt.Sprint(got); (err != nil) != (c.want == "") || err == nil && text != c.want {
			t.Errorf("%q: %s, %v", c.values, text, err)
		}
	}
}
