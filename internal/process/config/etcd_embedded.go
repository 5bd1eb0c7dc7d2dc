package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// This file contains the settings of the database inside this process.

// The databases that can run inside this process.
const (
	EngineEtcd   = "etcd"
	EnginePebble = "pebble"
)

// EnginesIn returns which of them have a database in a data directory, each in a directory of its name.
func EnginesIn(dataDir string) (found []string) {
	for _, engine := range []string{EngineEtcd, EnginePebble} {
		if files, err := os.ReadDir(filepath.Join(dataDir, engine)); err == nil && len(files) > 0 {
			found = append(found, engine)
		}
	}
	return found
}

// minObjectBytes and maxObjectBytes bound the limits for requests and values: the server's own objects need the one, and what is decoded and
// compared takes a multiple of the other in memory.
const minObjectBytes, maxObjectBytes = 1 << 20, 64 << 20

// DefaultEtcdTimeout bounds how long a check of health waits for etcd, if nothing else is set.
const DefaultEtcdTimeout = 2 * time.Second

func (c *Config) addEmbeddedFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Engine, "engine", c.Engine, "Database inside this process: etcd, or pebble, which costs less and is for one machine. The default is what the data directory has, and etcd for a new one. 'kanzen migrate' moves a directory from one to the other.")
	fs.StringVar(&c.EtcdName, "etcd-name", c.EtcdName, "Name of the embedded etcd among the members of its cluster. (default \"kanzen\")")
	fs.Int64Var(&c.EtcdQuotaBytes, "etcd-quota-backend-bytes", c.EtcdQuotaBytes, "Largest size of the database inside this process; 0: 2 GiB for etcd, what the disk has for pebble.")
	fs.IntVar(&c.PebbleMaxValueBytes, "pebble-max-value-bytes", c.PebbleMaxValueBytes, "Largest object that pebble stores; 0: 8 MiB. Requests have a limit of their own, --max-request-body-bytes. etcd stores 1.5 MiB.")
	fs.StringSliceVar(&c.EtcdListenClients, "etcd-listen-client-urls", c.EtcdListenClients, "https URLs at which the embedded etcd serves etcdctl and other API servers, to those with a certificate of pki/etcd/ca.crt in the data directory; none: it has no socket.")
	fs.StringSliceVar(&c.EtcdListenPeers, "etcd-listen-peer-urls", c.EtcdListenPeers, "https URLs at which the embedded etcd serves other members of its cluster, and by which they know it.")
}

// validateEtcd validates the settings of etcd.
func (c *Config) validateEtcd(bad reporter) {
	for flag, d := range map[string]time.Duration{"etcd-healthcheck-timeout": c.EtcdHealthTimeout, "etcd-readycheck-timeout": c.EtcdReadyTimeout} {
		if d < 0 {
			bad(flag, "must not be negative")
		}
	}
	if c.EtcdQuotaBytes < 0 {
		bad("etcd-quota-backend-bytes", "must not be negative")
	}
	switch n := c.PebbleMaxValueBytes; {
	case n == 0:
	case n < minObjectBytes || n > maxObjectBytes:
		bad("pebble-max-value-bytes", "must be from %d to %d", minObjectBytes, maxObjectBytes)
	case c.Engine == EngineEtcd || !c.Embedded():
		bad("pebble-max-value-bytes", "etcd stores no larger values")
	}
	if _, err := listenURLs(c.EtcdListenClients); err != nil {
		bad("etcd-listen-client-urls", "%v", err)
	}
	if _, err := listenURLs(c.EtcdListenPeers); err != nil {
		bad("etcd-listen-peer-urls", "%v", err)
	}
	if c.Engine != "" && c.Engine != EngineEtcd && c.Engine != EnginePebble {
		bad("engine", "%q is not one of %s, %s", c.Engine, EngineEtcd, EnginePebble)
	}
	if c.Embedded() {
		if c.Engine == EnginePebble && (len(c.EtcdListenClients) > 0 || len(c.EtcdListenPeers) > 0 || c.EtcdName != "") {
			bad("engine", "pebble goes with none of --etcd-name, --etcd-listen-client-urls, --etcd-listen-peer-urls: only etcd has members")
		}
		return
	}
	if c.Engine != "" {
		bad("engine", "does not go with --etcd-servers: it is about the database inside this process")
	}
	if len(c.EtcdListenClients) > 0 || len(c.EtcdListenPeers) > 0 || c.EtcdName != "" || c.EtcdQuotaBytes != 0 {
		bad("etcd-servers", "goes with none of --etcd-name, --etcd-listen-client-urls, --etcd-listen-peer-urls, --etcd-quota-backend-bytes: they are about the etcd inside this process")
	}
}

// EtcdListen returns where the embedded etcd listens.
func (c *Process) EtcdListen() (clients, peers []url.URL, err error) {
	if clients, err = listenURLs(c.EtcdListenClients); err != nil {
		return nil, nil, err
	}
	peers, err = listenURLs(c.EtcdListenPeers)
	return clients, peers, err
}

func listenURLs(list []string) (out []url.URL, err error) {
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" || u.Port() == "" || u.Hostname() == "" || u.Path != "" {
			return nil, fmt.Errorf("%q is not of the form https://address:port", text)
		}
		out = append(out, *u)
	}
	return out, nil
}
