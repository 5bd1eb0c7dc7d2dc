package config

import (
	"net"
	"strings"
	"testing"
)

func TestKubernetesServiceFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		says   string // part of the error; empty: none
	}{
		"nothing":                   {func(*Config) {}, ""},
		"unknown reconciler":        {func(c *Config) { c.EndpointReconcilerType = "x" }, "--endpoint-reconciler-type"},
		"no servers":                {func(c *Config) { c.APIServerCount = 0 }, "--apiserver-count"},
		"node port":                 {func(c *Config) { c.KubernetesServiceNodePort = 30443 }, ""},
		"node port out of range":    {func(c *Config) { c.KubernetesServiceNodePort = 443 }, "--kubernetes-service-node-port"},
		"node port below all":       {func(c *Config) { c.KubernetesServiceNodePort = -1 }, "--kubernetes-service-node-port"},
		"other family":              {func(c *Config) { c.AdvertiseAddress = net.ParseIP("fd00::3") }, "--advertise-address"},
		"other family, nobody's":    {func(c *Config) { c.AdvertiseAddress, c.EndpointReconcilerType = net.ParseIP("fd00::3"), "none" }, ""},
		"all addresses":             {func(c *Config) { c.BindAddress = net.IPv6unspecified }, ""},
		"other family, unreachable": {func(c *Config) { c.AdvertiseAddress = net.IPv6loopback }, ""},
	} {
		cfg := Standalone()
		c.change(&cfg)
		_, _, err := cfg.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
