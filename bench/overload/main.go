// Command overload floods a kanzen with the requests of one tenant, ten times
// and more what it can serve, and measures what others notice of it: another
// tenant of the same priority level, a node, and a controller's lease.
//
//	go run ./overload -kanzen ../kanzen
//
// What they notice has two causes: that they wait for seats, and that the
// machine's processors are busy with the flood's connections. To tell them
// apart, there are three parts: alone; beside the flood; and beside as many
// connections that keep the processors as busy, but take no seats of the others
// (an exempt user asks for the version).
//
// It fails if the other tenant's 99th percentile beside the flood is more than
// twice the greater of the two others, if anybody but the flood is refused, or
// if the server grows or ends.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	objects = 300 // config maps that the flood changes
	listed  = "/api/v1/namespaces/flood/configmaps"
	one     = "/api/v1/namespaces/default/configmaps/mine"
	lease   = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	leader  = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	tokens  = "admin,admin,1,system:masters\nflood,flood,2,tenants\ntenant,tenant,3,tenants\nnode,system:node:n,4,system:nodes\ncontroller,system:kube-controller-manager,5\n"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kanzen := flag.String("kanzen", "kanzen", "the binary")
	length := flag.Duration("for", 10*time.Second, "how long each part lasts")
	clients := flag.Int("clients", 600, "connections of the flood, each with a request under way all the time")
	seats := flag.Int("seats", 24, "seats of the server: --max-requests-inflight and --max-mutating-requests-inflight together")
	flood := flag.String("flood", "", "be the flood at this address (what this program starts by itself)")
	exempt := flag.Bool("exempt", false, "be a flood that takes no seats")
	flag.Parse()
	if *flood != "" {
		return beFlood(ctx, *flood, *clients, *exempt)
	}
	s, err := start(ctx, *kanzen, *seats)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.fill(ctx); err != nil {
		return err
	}
	fmt.Printf("%d seats, %d flooding connections\n", *seats, *clients)
	before := s.memory()
	alone, err := s.part(ctx, *length)
	if err != nil {
		return err
	}
	alone.print("alone")
	flooded, err := s.beside(ctx, "beside the flood", *length, *clients, false)
	if err != nil {
		return err
	}
	// Last, because what an exempt level is seen to use, the others do without
	// until the next adjustment.
	busy, err := s.beside(ctx, "beside a flood without seats", *length, *clients, true)
	if err != nil {
		return err
	}
	after := s.memory()
	fmt.Printf("memory: %d MB before, %d MB after\n", before>>20, after>>20)
	return judge(alone, busy, flooded, before, after)
}

// beside measures while there is a flood.
func (s *server) beside(ctx context.Context, what string, length time.Duration, clients int, exempt bool) (part, error) {
	child, report, err := s.startFlood(ctx, clients, exempt)
	if err != nil {
		return part{}, err
	}
	lines := bufio.NewReader(report)
	if _, err := lines.ReadString('\n'); err != nil { // all are connected
		return part{}, err
	}
	used := s.processors()
	p, err := s.part(ctx, length)
	used = s.processors() - used
	_ = child.Process.Signal(syscall.SIGTERM)
	text, _ := io.ReadAll(lines)
	_ = child.Wait()
	if err != nil {
		return part{}, err
	}
	p.print(what)
	fmt.Printf("  flood:      %s  server:     %.1f of %d processors\n", text, used.Seconds()/length.Seconds(), runtime.NumCPU())
	return p, nil
}

// judge holds the measurements to what is promised.
func judge(alone, busy, flooded part, before, after int64) error {
	var errs []error
	if limit, got := 2*max(alone.tenant.at(99), busy.tenant.at(99)), flooded.tenant.at(99); got > limit {
		errs = append(errs, fmt.Errorf("the tenant's p99 is %s, more than %s", got, limit))
	}
	for _, p := range []part{alone, busy, flooded} {
		for who, s := range p.all() {
			if s.refused > 0 {
				errs = append(errs, fmt.Errorf("%d requests of the %s were refused", s.refused, who))
			}
		}
	}
	if after > before+200<<20 {
		errs = append(errs, fmt.Errorf("the server grew from %d to %d bytes", before, after))
	}
	return errors.Join(errs...)
}

// server is a kanzen on fresh data.
type server struct {
	dir, url string
	cmd      *exec.Cmd
}

func start(ctx context.Context, kanzen string, seats int) (*server, error) {
	dir, err := os.MkdirTemp("", "kanzen-overload-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	s.url = "https://127.0.0.1:" + port
	s.cmd = exec.Command(kanzen, "serve", "--data-dir", filepath.Join(dir, "data"), "--secure-port", port, "--controllers=", "--authorization-mode=AlwaysAllow",
		"--disable-admission-plugins=ServiceAccount,NodeRestriction", "--token-auth-file", filepath.Join(dir, "tokens"),
		"--max-requests-inflight", strconv.Itoa(seats*2/3), "--max-mutating-requests-inflight", strconv.Itoa(seats-seats*2/3))
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	c := newClient()
	defer c.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if code, err := send(ctx, c, "admin", http.MethodGet, s.url+"/readyz", ""); err == nil && code == http.StatusOK {
			return s, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			s.stop()
			return nil, errors.New("the server does not get ready")
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

// memory is the server's resident memory in bytes.
func (s *server) memory() int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// processors is the time of processors that the server has used.
func (s *server) processors() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// After the name in parentheses, which may be anything: user and system time
	// are the twelfth and thirteenth field, in hundredths of a second.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// fill makes what is asked for.
func (s *server) fill(ctx context.Context) error {
	c := newClient()
	defer c.CloseIdleConnections()
	bodies := [][2]string{{"/api/v1/namespaces", `{"metadata":{"name":"flood"}}`}, {"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"mine"}}`},
		{lease, `{"metadata":{"name":"n"}}`}, {leader, `{"metadata":{"name":"kube-controller-manager"}}`}}
	for n := range objects {
		bodies = append(bodies, [2]string{listed, fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"k":%q}}`, n, strings.Repeat("x", 1000))})
	}
	for _, b := range bodies {
		if code, err := send(ctx, c, "admin", http.MethodPost, s.url+b[0], b[1]); err != nil || code != http.StatusCreated {
			return fmt.Errorf("make %s: %d, %v", b[0], code, err)
		}
	}
	return nil
}

// part is what others notice in a part of the time.
type part struct{ tenant, node, controller series }

func (p *part) all() map[string]*series {
	return map[string]*series{"tenant": &p.tenant, "node": &p.node, "controller": &p.controller}
}

func (p *part) print(what string) {
	fmt.Println(what)
	for _, who := range []string{"tenant", "node", "controller"} {
		s := p.all()[who]
		fmt.Printf("  %-11s p50 %s, p99 %s (%d requests, %d refused)\n", who+":", s.at(50), s.at(99), len(s.took), s.refused)
	}
}

// series are the times of one client's requests.
type series struct {
	took    []time.Duration
	refused int
}

func (s *series) at(percent int) time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	slices.Sort(s.took)
	return s.took[(len(s.took)-1)*percent/100].Round(10 * time.Microsecond)
}

// part sends the requests of a tenant, a read every 10 ms, and of a node and a
// controller, who each keep a lease every 50 ms.
func (s *server) part(ctx context.Context, length time.Duration) (p part, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 3)
	const renewed = `{"spec":{"leaseDurationSeconds":40}}`
	wg.Go(func() { errs[0] = p.tenant.ask(ctx, 10*time.Millisecond, "tenant", http.MethodGet, s.url+one, "") })
	wg.Go(func() {
		errs[1] = p.node.ask(ctx, 50*time.Millisecond, "node", http.MethodPatch, s.url+lease+"/n", renewed)
	})
	wg.Go(func() {
		errs[2] = p.controller.ask(ctx, 50*time.Millisecond, "controller", http.MethodPatch, s.url+leader+"/kube-controller-manager", renewed)
	})
	wg.Wait()
	return p, errors.Join(errs...)
}

func (s *series) ask(ctx context.Context, every time.Duration, user, method, url, body string) error {
	c := newClient()
	defer c.CloseIdleConnections()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		began := time.Now()
		code, err := send(ctx, c, user, method, url, body)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case code == http.StatusTooManyRequests:
			s.refused++
		case code != http.StatusOK:
			return fmt.Errorf("%s %s: %d", method, url, code)
		default:
			s.took = append(s.took, time.Since(began))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// startFlood starts the flood in a process of its own, behind all others in
// the machine's own queue: what it does to the server is measured, not what it
// does to the machine.
func (s *server) startFlood(ctx context.Context, clients int, exempt bool) (*exec.Cmd, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "-flood", s.url, "-clients", strconv.Itoa(clients), "-exempt="+strconv.FormatBool(exempt))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, cmd.Start()
}

// beFlood writes as fast as it can until it is told to end; an exempt one
// asks for next to nothing, as fast.
func beFlood(ctx context.Context, url string, clients int, exempt bool) error {
	var served, refused atomic.Int64
	began := time.Now()
	var wg, connected sync.WaitGroup
	connected.Add(clients)
	wg.Go(func() {
		connected.Wait()
		fmt.Println("connected")
	})
	for n := range clients {
		wg.Go(func() {
			c := newClient()
			defer c.CloseIdleConnections()
			_, _ = send(ctx, c, "flood", http.MethodGet, url+"/version", "") // it is tried again below
			connected.Done()
			for ctx.Err() == nil {
				user, method, path, body := "flood", http.MethodPatch, fmt.Sprintf("%s/c%d", listed, n%objects), fmt.Sprintf(`{"data":{"n":"%d"}}`, time.Now().UnixNano())
				if exempt {
					user, method, path, body = "admin", http.MethodGet, "/version", ""
				}
				switch code, err := send(ctx, c, user, method, url+path, body); {
				case err != nil:
				case code == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					served.Add(1)
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	fmt.Printf("%.0f requests a second served, %.0f refused, %d always under way\n", float64(served.Load())/seconds, float64(refused.Load())/seconds, clients)
	return nil
}

func newClient() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func send(ctx context.Context, c *http.Client, user, method, url, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+user)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
