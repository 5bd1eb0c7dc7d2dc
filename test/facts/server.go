package facts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Server is a running API server.
type Server struct {
	program  string // path of the binary
	port     string
	client   http.Client
	commands []*exec.Cmd
}

// token is the administrator's.
const token = "facts-admin"

// Start starts a program as kube-apiserver on an etcd of its own, which kanzen is too, and waits until it is ready.
// What it writes goes to dir.
func Start(ctx context.Context, program, kanzen, dir string, flags ...string) (_ *Server, err error) {
	s := &Server{program: program}
	s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcd, member := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	s.port = ports[2]
	key, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	if err := errors.Join(writeKey(key), os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600)); err != nil {
		return nil, err
	}
	if err := s.run(dir, "etcd", kanzen, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd,
		"--advertise-client-urls", etcd, "--listen-peer-urls", member, "--initial-advertise-peer-urls", member, "--initial-cluster", "default="+member); err != nil {
		return nil, err
	}
	if err := s.run(dir, "kube-apiserver", program, append([]string{"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", s.port, "--advertise-address", "192.0.2.1",
		"--cert-dir", filepath.Join(dir, "certs"), "--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true",
		"--authorization-mode", "Node,RBAC", "--disable-admission-plugins", "ServiceAccount", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--token-auth-file", tokens}, flags...)...); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err = s.get(ctx, "/readyz", ""); err == nil {
			_, err = s.get(ctx, "/api/v1/namespaces/default/endpoints/kubernetes", "") // the last of the first objects
		}
		if err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log"))
			return nil, fmt.Errorf("%s does not become ready: %w\n%s", program, err, log[max(0, len(log)-2000):])
		}
	}
}

// run starts a program under a name, by which kanzen knows what it is to be.
func (s *Server) run(dir, name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Args[0], cmd.Dir, cmd.Stdout, cmd.Stderr = name, dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.commands = append(s.commands, cmd)
	return nil
}

// Stop ends the server and its etcd.
func (s *Server) Stop() {
	for _, cmd := range s.commands {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
}

// get asks for a path. An answer other than 200 is an error.
func (s *Server) get(ctx context.Context, path, accept string) ([]byte, error) {
	code, body, err := s.ask(ctx, http.MethodGet, path, accept, "")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %.200s", path, code, body)
	}
	return body, err
}

// decode asks for a path and decodes its JSON.
func (s *Server) decode(ctx context.Context, path, accept string, into any) error {
	body, err := s.get(ctx, path, accept)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *Server) ask(ctx context.Context, method, path, accept, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:"+s.port+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// freePorts returns ports of 127.0.0.1 on which nobody listens.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

// writeKey makes a key that signs the tokens of service accounts.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
