package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// client sends requests to a server without verifying its certificate: the server is the generator's own, or one that
// the user named.
type client struct{ server, token string }

func (c *client) get(path, accept string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, c.server+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.token)
	h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer h.CloseIdleConnections()
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s: %s", path, resp.Status, body)
	}
	return body, nil
}

// peer is a kube-apiserver with its etcd, in its own directory.
type peer struct {
	address, token string
	dir            string
	cancel         context.CancelFunc
	commands       []*exec.Cmd
}

func startPeer(bin string, flags ...string) (_ *peer, err error) {
	dir, err := os.MkdirTemp("", "openapi-gen")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{dir: dir, cancel: cancel, token: "generator"}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcdURL, peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	p.address = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if err := writeKey(filepath.Join(dir, "sa.key")); err != nil {
		return nil, err
	}
	tokens := p.token + ",generator,generator,system:masters\n"
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcdURL,
			"--advertise-client-urls", etcdURL, "--listen-peer-urls", peerURL},
		{"kube-apiserver", "--etcd-servers", etcdURL, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[2]),
			"--cert-dir", filepath.Join(dir, "certs"), "--token-auth-file", filepath.Join(dir, "tokens.csv"),
			"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file", filepath.Join(dir, "sa.key"),
			"--service-account-signing-key-file", filepath.Join(dir, "sa.key")},
	} {
		if args[0] == "kube-apiserver" {
			args = append(args, flags...)
		}
		cmd := exec.CommandContext(ctx, filepath.Join(bin, args[0]), args[1:]...)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		p.commands = append(p.commands, cmd)
	}
	return p, p.waitReady()
}

func (p *peer) waitReady() error {
	c := &client{server: p.address, token: p.token}
	var err error
	for range 120 {
		if _, err = c.get("/readyz", "*/*"); err == nil {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	return fmt.Errorf("kube-apiserver does not get ready: %w", err)
}

func (p *peer) stop() {
	p.cancel()
	for _, c := range p.commands {
		_ = c.Wait() // it was killed, which is the error
	}
	if err := os.RemoveAll(p.dir); err != nil {
		fmt.Fprintln(os.Stderr, "remove the peer's directory:", err)
	}
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return os.WriteFile(path, block, 0o600)
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // close all at the end, so that the ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
