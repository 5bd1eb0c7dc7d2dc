package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The names of the sides, as reports show them.
const (
	peerSide   = "kube-apiserver + etcd"
	kanzenSide = "kanzen"
	bareSide   = "bare Go TLS server"
)

// token is the administrator's on every side. A static token is the cheapest
// way to authenticate that both servers have.
const token = "bench"

// readyTimeout is how long a side may take to become ready.
const readyTimeout = 2 * time.Minute

// programs are the files that the sides are made of.
type programs struct {
	apiserver, etcd, kanzen string
	self                    string // this program, which is also the bare server
}

// side is one of the systems that are compared: its processes, serving on
// fresh data until stop.
type side struct {
	name  string
	url   string
	dir   string // all it writes; removed by stop
	procs []*process
	ready time.Duration // from the first exec to the first 200 of /readyz
}

// process is a started program whose output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// start starts the named side and waits until it is ready. bodies is what the
// bare side serves: a file of this directory at each path.
func start(ctx context.Context, name string, p programs, bodies string) (*side, error) {
	dir, err := os.MkdirTemp("", "kanzen-bench-")
	if err != nil {
		return nil, err
	}
	s := &side{name: name, dir: dir}
	if err := s.start(ctx, p, bodies); err != nil {
		err = fmt.Errorf("start %s: %w%s", name, err, s.logs())
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *side) start(ctx context.Context, p programs, bodies string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	s.url = "https://127.0.0.1:" + ports[0]
	tokens := s.path("tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",bench,bench,system:masters\n"), 0o600); err != nil {
		return err
	}
	key := s.path("service-account.key")
	if s.name == peerSide { // it makes its other keys itself, as kanzen makes all of its own
		if err := writeKey(key); err != nil {
			return err
		}
	}
	began := time.Now()
	switch s.name {
	case peerSide:
		err = s.startPeer(p, ports, tokens, key)
	case kanzenSide:
		err = s.exec(p.kanzen, "serve", "--data-dir", s.path("data"), "--secure-port", ports[0],
			"--controllers=", "--token-auth-file", tokens)
	case bareSide:
		err = s.exec(p.self, "-bare", "127.0.0.1:"+ports[0], "-bodies", bodies)
	}
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.ready = time.Since(began)
	return nil
}

// startPeer starts etcd and kube-apiserver together; the latter waits for the
// former by itself.
func (s *side) startPeer(p programs, ports []string, tokens, key string) error {
	client, peer := "http://127.0.0.1:"+ports[1], "http://127.0.0.1:"+ports[2]
	err := s.exec(p.etcd, "--data-dir", s.path("data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	return s.exec(p.apiserver, "--etcd-servers", client,
		"--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", s.path("certs"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true", "--authorization-mode", "Node,RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--token-auth-file", tokens)
}

func (s *side) path(name string) string { return filepath.Join(s.dir, name) }

// exec starts a program of this side. It is in a process group of its own, so
// that Ctrl-C reaches it by way of stop, and dies with this process in any case.
func (s *side) exec(path string, args ...string) error {
	p := &process{log: s.path(filepath.Base(path) + ".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // whoever misses the process says that it has ended
		close(p.done)
	}()
	s.procs = append(s.procs, p)
	return nil
}

// alive is an error if a process of the side has ended.
func (s *side) alive() error {
	for _, p := range s.procs {
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended: %v", filepath.Base(p.cmd.Path), p.cmd.ProcessState)
		default:
		}
	}
	return nil
}

// awaitReady asks /readyz every millisecond.
func (s *side) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c := newClient()
	defer c.close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		notReady := c.do(ctx, s.url, request{method: http.MethodGet, path: "/readyz"}, io.Discard)
		if notReady == nil {
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

// restart ends the side's only process in order, starts it again on the same
// data and waits until it is ready.
func (s *side) restart(ctx context.Context) error {
	was := s.procs[0]
	if err := was.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-was.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.procs = nil
	began := time.Now()
	if err := s.exec(was.cmd.Path, was.cmd.Args[1:]...); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.ready = time.Since(began)
	return nil
}

// stop kills the processes and removes what they wrote.
func (s *side) stop() {
	for _, p := range s.procs {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.done
	}
	_ = os.RemoveAll(s.dir) // only litter in the temporary directory if it fails
}

// logs is the end of what each process wrote, for an error message.
func (s *side) logs() string {
	var out bytes.Buffer
	for _, p := range s.procs {
		b, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		fmt.Fprintf(&out, "\n--- %s\n%s", filepath.Base(p.log), b[max(0, len(b)-2000):])
	}
	return out.String()
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

// build makes the programs that were not given as files. dir is this module's.
func build(ctx context.Context, dir, peerBin, kanzen, tmp string) (programs, error) {
	self, err := os.Executable()
	if err != nil {
		return programs{}, err
	}
	if peerBin == "" {
		peerBin = filepath.Join(dir, "peer", "bin")
		progress("building the peer (minutes, the first time)")
		if err := run(ctx, filepath.Join(dir, "peer"), "make", "bin/kube-apiserver", "bin/etcd"); err != nil {
			return programs{}, err
		}
	}
	if kanzen == "" {
		kanzen = filepath.Join(tmp, "kanzen")
		progress("building kanzen")
		if err := run(ctx, filepath.Dir(dir), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", kanzen, "./cmd/kanzen"); err != nil {
			return programs{}, err
		}
	}
	p := programs{apiserver: filepath.Join(peerBin, "kube-apiserver"), etcd: filepath.Join(peerBin, "etcd"), kanzen: kanzen, self: self}
	for _, f := range []*string{&p.apiserver, &p.etcd, &p.kanzen} {
		abs, err := filepath.Abs(*f)
		if err != nil {
			return programs{}, err
		}
		if _, err := os.Stat(abs); err != nil {
			return programs{}, err
		}
		*f = abs
	}
	return p, nil
}

// run runs a build command in dir, without cgo.
func run(ctx context.Context, dir string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s %v: %w", name, args, err), errors.New(string(out)))
	}
	return nil
}
