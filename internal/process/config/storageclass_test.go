package config

import (
	"reflect"
	"testing"
)

func TestStorageClasses(t *testing.T) {
	c := Process{EtcdServers: []string{"https://root:2379"}, EtcdCAFile: "ca", EtcdCertFile: "cert", EtcdKeyFile: "key", PlanesStorage: []string{
		"fast=https://a:2379;https://b:2379", "far=http://c:2379,cafile=x,certfile=y,keyfile=z",
	}}
	got, err := c.StorageClasses()
	own := EtcdFiles{"cafile", "certfile", "ca", "cert", "key"}
	other := EtcdFiles{"cafile", "certfile", "x", "y", "z"}
	if want := []StorageClass{{"fast", []string{"https://a:2379", "https://b:2379"}, own}, {"far", []string{"http://c:2379"}, other}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range [][]string{
		{"fast"}, {"=http://a:2379"}, {"Fast=http://a:2379"}, {"fast="}, {"fast=a"}, {"fast=ftp://a:2379"}, {"fast=http://a:2379;"},
		{"fast=http://a:2379,prefix=/x"}, {"fast=http://a:2379,cafile="}, {"fast=http://a:2379,certfile=y"},
		{"fast=http://a:2379", "fast=http://b:2379"}, {"fast=http://a:2379", "slow=http://a:2379"}, {"fast=https://root:2379"},
	} {
		if says := validated("planes-storage", func(c *Config) {
			c.Planes, c.PlanesStorage, c.EtcdServers = true, wrong, []string{"https://root:2379"}
		}); says == "" {
			t.Errorf("%v is taken", wrong)
		}
	}
	if says := validated("planes-storage", func(c *Config) { c.PlanesStorage = []string{"fast=http://a:2379"} }); says == "" {
		t.Error("taken without --planes")
	}
}
