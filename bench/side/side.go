// Package side runs the systems that are compared, each on fresh data in a
// temporary directory and on free loopback ports, sends them requests and reads
// what they cost. What requests these are is the commands' business.
package side

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The names of the sides, as reports show them.
const (
	Peer   = "kube-apiserver + etcd"
	Kanzen = "kanzen"
	Pebble = "kanzen on Pebble"
	Bare   = "bare Go TLS server"
	Etcd   = "bare etcd put"
	Commit = "bare Pebble commit"
)

// Token is the administrator's on every side. A static token is the cheapest
// way to authenticate that both servers have.
const Token = "bench"

// readyTimeout is how long a side may take to become ready.
const readyTimeout = 2 * time.Minute

// Options are what may differ from one measurement to the next. They are the
// same for Peer and Kanzen.
type Options struct {
	// Authorization is the API server's --authorization-mode; Node,RBAC if empty.
	Authorization string
	// Flags are more flags of the API server, as both know them.
	Flags []string
	// Tokens are lines of the file of --token-auth-file, beside the administrator's.
	Tokens string
	// Etcd is the address of an etcd to use, that of StartEtcd; empty: the side has its own.
	Etcd string
	// EtcdListens has Kanzen's embedded etcd listen, for EtcdClient.
	EtcdListens bool
	// Bodies is a directory whose files Bare serves.
	Bodies string
}

// Side is one of the systems that are compared: its processes, serving until Stop.
type Side struct {
	Name  string
	URL   string
	Ready time.Duration // from the first exec to the first 200 of /readyz
	etcd  string        // the address of its etcd; empty: it has no socket
	dir   string        // all it writes; removed by Stop
	procs []*process
}

// Start starts the named side and waits until it is ready.
func Start(ctx context.Context, name string, p Programs, o Options) (*Side, error) {
	dir, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return nil, err
	}
	s := &Side{Name: name, dir: dir}
	if err := s.start(ctx, p, o); err != nil {
		err = fmt.Errorf("start %s: %w%s", name, err, s.Logs())
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Side) start(ctx context.Context, p Programs, o Options) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	s.URL = "https://127.0.0.1:" + ports[0]
	tokens := s.path("tokens.csv")
	if err := os.WriteFile(tokens, []byte(Token+",bench,bench,system:masters\n"+o.Tokens), 0o600); err != nil {
		return err
	}
	if o.Authorization == "" {
		o.Authorization = "Node,RBAC"
	}
	flags := append([]string{"--secure-port", ports[0], "--token-auth-file", tokens, "--authorization-mode", o.Authorization}, o.Flags...)
	key := s.path("service-account.key")
	if s.Name == Peer { // it makes its other keys itself, as kanzen makes all of its own
		if err := writeKey(key); err != nil {
			return err
		}
	}
	for _, program := range []string{p.Etcd, p.APIServer, p.Kanzen} {
		readOnce(program)
	}
	began := time.Now()
	switch s.Name {
	case Peer:
		err = s.startPeer(p, ports, key, o.Etcd, flags)
	case Pebble:
		err = s.exec(p.Kanzen, append([]string{"serve", "--engine", "pebble", "--data-dir", s.path("data"), "--controllers="}, flags...)...)
	case Kanzen:
		if o.Etcd != "" {
			flags = append(flags, "--etcd-servers", o.Etcd)
		}
		if o.EtcdListens {
			s.etcd = "https://127.0.0.1:" + ports[1]
			flags = append(flags, "--etcd-listen-client-urls", s.etcd)
		}
		err = s.exec(p.Kanzen, append([]string{"serve", "--data-dir", s.path("data"), "--controllers="}, flags...)...)
	case Bare:
		err = s.exec(p.Self, "-bare", "127.0.0.1:"+ports[0], "-bodies", o.Bodies)
	}
	if err != nil {
		return err
	}
	return s.awaitReady(ctx, began)
}

// readOnce reads a program, so that its start does not wait for the disk: a system that gives back the pages of files which are not
// used for a while made a second of that.
func readOnce(program string) {
	f, err := os.Open(program)
	if err != nil {
		return // the side that needs it will say so
	}
	defer f.Close()
	_, _ = io.Copy(io.Discard, f)
}

// StartEtcd starts the peer's etcd alone, for several sides, and returns its address. It may not be ready yet: servers wait for
// it.
func StartEtcd(p Programs) (*Side, string, error) {
	dir, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return nil, "", err
	}
	s := &Side{Name: Etcd, dir: dir}
	ports, err := freePorts(2)
	if err == nil {
		err = s.startEtcd(p, ports)
	}
	if err != nil {
		s.Stop()
		return nil, "", err
	}
	return s, "http://127.0.0.1:" + ports[0], nil
}

func (s *Side) startEtcd(p Programs, ports []string) error {
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	return s.exec(p.Etcd, "--data-dir", s.path("data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
}

// startPeer starts etcd, unless there is one, and kube-apiserver together; the latter waits for the former by itself.
func (s *Side) startPeer(p Programs, ports []string, key, etcd string, flags []string) error {
	if etcd == "" {
		if err := s.startEtcd(p, ports[1:]); err != nil {
			return err
		}
		etcd = "http://127.0.0.1:" + ports[1]
	}
	s.etcd = etcd
	return s.exec(p.APIServer, append([]string{"--etcd-servers", etcd,
		"--bind-address", "127.0.0.1", "--cert-dir", s.path("certs"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key}, flags...)...)
}

func (s *Side) path(name string) string { return filepath.Join(s.dir, name) }

// Client is a new connection of the administrator's.
func (s *Side) Client() *Client { return NewClient(s.URL, Token) }

// awaitReady asks /readyz every millisecond.
func (s *Side) awaitReady(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c := s.Client()
	defer c.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		notReady := c.Do(ctx, Request{Method: http.MethodGet, Path: "/readyz"}, io.Discard)
		if notReady == nil {
			s.Ready = time.Since(began)
			return nil
		}
		if err := s.alive(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w)", notReady, ctx.Err())
		}
	}
}

// Restart ends the API server in order, starts it again on the same data and
// waits until it is ready. An etcd that is a process of its own goes on.
func (s *Side) Restart(ctx context.Context) error {
	return s.Offline(ctx, func(string) error { return nil })
}

// Offline restarts the side, and meanwhile passes its data directory to change.
func (s *Side) Offline(ctx context.Context, change func(dataDir string) error) error {
	last := len(s.procs) - 1
	was := s.procs[last]
	if err := was.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-was.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.procs = s.procs[:last]
	if err := change(s.path("data")); err != nil {
		return err
	}
	began := time.Now()
	if err := s.exec(was.cmd.Path, was.cmd.Args[1:]...); err != nil {
		return err
	}
	return s.awaitReady(ctx, began)
}

// Stop kills the processes and removes what they wrote.
func (s *Side) Stop() {
	for _, p := range s.procs {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.done
	}
	_ = os.RemoveAll(s.dir) // only litter in the temporary directory if it fails
}

// freePorts finds loopback ports on which nothing listens at the moment.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until the last is found
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

func writeKey(path string) error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
