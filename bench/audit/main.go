// Command audit measures what an audit log at the level Metadata costs the
// cheapest requests: GETs of one object over TLS and HTTP/2, to two kanzens of
// which one keeps a log.
//
//	go run ./audit -kanzen ../kanzen
//
// They are asked in turns, in short rounds, so that what else the machine does
// falls on both. What counts is the time of processors that each used for a
// request, of which the median round is taken.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
	object = "/api/v1/namespaces/default/configmaps/one"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run() error {
	kanzen := flag.String("kanzen", "kanzen", "the binary")
	rounds := flag.Int("rounds", 15, "rounds for each server")
	requests := flag.Int("requests", 8000, "requests in a round")
	clients := flag.Int("clients", 16, "connections")
	flag.Parse()
	dir, err := os.MkdirTemp("", "kanzen-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "policy"), []byte(policy), 0o600),
		os.WriteFile(filepath.Join(dir, "tokens"), []byte("admin,admin,1,system:masters\n"), 0o600)); err != nil {
		return err
	}
	var servers [2]*server
	for n := range servers {
		var flags []string
		if n == 1 {
			flags = []string{"--audit-policy-file", filepath.Join(dir, "policy"), "--audit-log-path", filepath.Join(dir, "log")}
		}
		if servers[n], err = start(*kanzen, filepath.Join(dir, strconv.Itoa(n)), filepath.Join(dir, "tokens"), *clients, flags); err != nil {
			return err
		}
		defer servers[n].stop()
	}
	var used, took [2][]time.Duration
	for range *rounds {
		for n, s := range servers {
			cpu, began := s.processors(), time.Now()
			if err := s.ask(*requests); err != nil {
				return err
			}
			took[n] = append(took[n], time.Since(began)/time.Duration(*requests))
			used[n] = append(used[n], (s.processors()-cpu)/time.Duration(*requests))
		}
	}
	for n, name := range []string{"without", "with"} {
		fmt.Printf("%-8s an audit log: %s of processors a request, %s from one to the next\n", name, median(used[n]), median(took[n]))
	}
	fmt.Printf("the log takes %.1f%% of processors, %.1f%% of throughput\n", 100*(float64(median(used[1]))/float64(median(used[0]))-1), 100*(1-float64(median(took[0]))/float64(median(took[1]))))
	return nil
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// server is a kanzen on fresh data, and connections to it.
type server struct {
	url     string
	cmd     *exec.Cmd
	clients []*http.Client
}

func start(kanzen, dir, tokens string, clients int, flags []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	s := &server{url: "https://127.0.0.1:" + port, cmd: exec.Command(kanzen, append([]string{"serve", "--data-dir", dir, "--secure-port", port,
		"--controllers=", "--disable-admission-plugins=ServiceAccount", "--token-auth-file", tokens}, flags...)...)}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range clients {
		s.clients = append(s.clients, &http.Client{Timeout: time.Minute, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}})
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if code, err := s.send(s.clients[0], http.MethodGet, "/readyz", ""); err == nil && code == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			s.stop()
			return nil, errors.New("the server does not get ready")
		}
	}
	if code, err := s.send(s.clients[0], http.MethodPost, filepath.Dir(object), `{"metadata":{"name":"one"}}`); err != nil || code != http.StatusCreated {
		s.stop()
		return nil, fmt.Errorf("make the object: %d, %v", code, err)
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// ask sends so many requests over all connections.
func (s *server) ask(requests int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.clients))
	for n, c := range s.clients {
		wg.Go(func() {
			for range requests / len(s.clients) {
				if code, err := s.send(c, http.MethodGet, object, ""); err != nil || code != http.StatusOK {
					errs[n] = fmt.Errorf("get: %d, %w", code, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *server) send(c *http.Client, method, path, body string) (int, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer admin")
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// processors is the time of processors that the server has used: the sum of
// its threads', as the scheduler counts it in nanoseconds.
func (s *server) processors() (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}
