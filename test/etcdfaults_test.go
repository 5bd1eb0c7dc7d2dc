package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// etcdMember is one member of an etcd cluster that a test breaks.
type etcdMember struct {
	*process
	client string
	args   []string
	link   *slowLink // nil: servers reach it directly
}

// slowLink passes connections on, and can hold back what they carry for some time.
type slowLink struct {
	address string
	delay   atomic.Int64
}

func (l *slowLink) slow(d time.Duration) { l.delay.Store(int64(d)) }

func newSlowLink(t *testing.T, to string) *slowLink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &slowLink{address: "http://" + listener.Addr().String()}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			go l.pass(in, out)
			go l.pass(out, in)
		}
	}()
	return l
}

// pass copies from one connection to the other, each piece after the delay that holds when it has come or shortly after.
func (l *slowLink) pass(from, to net.Conn) {
	type piece struct {
		bytes []byte
		came  time.Time
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer to.Close()
		for p := range pieces {
			for time.Since(p.came) < time.Duration(l.delay.Load()) {
				time.Sleep(5 * time.Millisecond)
			}
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(pieces)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			pieces <- piece{b[:n], time.Now()}
		}
		if err != nil {
			return
		}
	}
}

func (m *etcdMember) start(t *testing.T) { m.process = start(t, link(t, "etcd"), m.args...) }

// etcdMembers starts a cluster.
func etcdMembers(t *testing.T, n int) (all []*etcdMember, clients string) {
	t.Helper()
	dir := t.TempDir()
	var cluster, addresses []string
	for i := range n {
		m := &etcdMember{client: "http://127.0.0.1:" + freePort(t)}
		member := "http://127.0.0.1:" + freePort(t)
		name := fmt.Sprint("m", i)
		m.args = []string{"--name=" + name, "--data-dir=" + filepath.Join(dir, name), "--unsafe-no-fsync=true", "--listen-client-urls=" + m.client, "--advertise-client-urls=" + m.client,
			"--listen-peer-urls=" + member, "--initial-advertise-peer-urls=" + member}
		all, cluster, addresses = append(all, m), append(cluster, name+"="+member), append(addresses, m.client)
	}
	for _, m := range all {
		m.args = append(m.args, "--initial-cluster="+strings.Join(cluster, ","))
		m.start(t)
	}
	for _, m := range all {
		within(t, 60*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, m.client+"/health") })
	}
	return all, strings.Join(addresses, ",")
}

// faultAnswer is what a server answers while its etcd is in trouble.
type faultAnswer struct {
	code   int
	reason string
	body   string
}

// faultRequests are sent while etcd is in trouble; n makes names unique.
func faultRequests(n string) map[string][3]string {
	const maps = "/api/v1/namespaces/default/configmaps"
	return map[string][3]string{
		"get":               {"GET", maps + "/before"},
		"get from memory":   {"GET", maps + "/before?resourceVersion=0"},
		"list":              {"GET", maps},
		"list from memory":  {"GET", maps + "?resourceVersion=0"},
		"create":            {"POST", maps, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + n + `"}}`},
		"update":            {"PUT", maps + "/before", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"before"},"data":{"` + n + `":""}}`},
		"delete":            {"DELETE", maps + "/" + n + "-delete"},
		"/readyz":           {"GET", "/readyz"},
		"/readyz?verbose":   {"GET", "/readyz?verbose"},
		"/livez/etcd":       {"GET", "/livez/etcd"},
		"/livez?exclude":    {"GET", "/livez?exclude=etcd"},
		"/readyz/etcd":      {"GET", "/readyz/etcd"},
		"discovery":         {"GET", "/api/v1"},
		"whoami (no etcd)":  {"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`},
		"may I (no etcd)":   {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`},
		"namespaces (view)": {"GET", "/api/v1/namespaces/default?resourceVersion=0"},
	}
}

// ask sends all requests at the same time.
func askFaults(t *testing.T, c *rest.Config, n string) map[string]faultAnswer {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]faultAnswer{}
	for name, r := range faultRequests(n) {
		wg.Go(func() {
			a := faultAnswer{reason: "no answer"}
			req, err := http.NewRequestWithContext(ctx, r[0], c.Host+r[1], strings.NewReader(r[2]))
			if err == nil {
				req.Header.Set("Content-Type", "application/json")
				var resp *http.Response
				if resp, err = h.Do(req); err == nil {
					defer resp.Body.Close()
					var body []byte
					body, err = io.ReadAll(resp.Body)
					var status metav1.Status
					_ = json.Unmarshal(body, &status) // health is text
					a = faultAnswer{resp.StatusCode, string(status.Reason), string(body)}
				}
			}
			if err != nil {
				a.body = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = a
		})
	}
	wg.Wait()
	return out
}

// TestEtcdFaults takes etcd away in different ways, from kanzen and from kube-apiserver on the same one: what needs etcd fails
// with an error that says so, what is in memory is served, health tells, and all goes on by itself when etcd is back, with
// everything there that was acknowledged.
func TestEtcdFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		members int
		breaks  func(t *testing.T, all []*etcdMember)
		mends   func(t *testing.T, all []*etcdMember)
	}{
		{"slow", 1, func(_ *testing.T, all []*etcdMember) { all[0].link.slow(20 * time.Second) }, func(_ *testing.T, all []*etcdMember) { all[0].link.slow(0) }},
		{"stopped", 1, func(t *testing.T, all []*etcdMember) { must(t, all[0].cmd.Process.Signal(syscall.SIGSTOP)) },
			func(t *testing.T, all []*etcdMember) { must(t, all[0].cmd.Process.Signal(syscall.SIGCONT)) }},
		{"gone", 1, func(_ *testing.T, all []*etcdMember) { all[0].kill() }, func(t *testing.T, all []*etcdMember) { all[0].start(t) }},
		{"without quorum", 3, func(_ *testing.T, all []*etcdMember) { all[0].kill(); all[1].kill() },
			func(t *testing.T, all []*etcdMember) { all[0].start(t); all[1].start(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			members, etcd := etcdMembers(t, c.members)
			if c.members == 1 { // what comes and goes can be slowed
				members[0].link = newSlowLink(t, members[0].client)
				etcd = members[0].link.address
			}
			args := []string{"--disable-admission-plugins=ServiceAccount", "--request-timeout=5s"}
			k := serve(t, filepath.Join(t.TempDir(), "kanzen"), append(args, "--etcd-servers="+etcd, "--controllers=")...)
			servers := map[string]*takeoverServer{"kanzen": {t, k.config()}, "kube-apiserver": {t, peer.StartOn(t, etcd, args...)}}
			for _, name := range []string{"before", "kanzen-delete", "kube-apiserver-delete"} {
				if code, body := servers["kanzen"].send("POST", "/api/v1/namespaces/default/configmaps", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": name}}); code != http.StatusCreated {
					t.Fatalf("%d %s", code, body)
				}
			}
			for _, s := range servers { // both have it in memory
				within(t, 60*time.Second, "it is served", func(context.Context) bool {
					_, _ = s.send("GET", "/api/v1/namespaces/default/configmaps?resourceVersion=0", nil) // single objects come from etcd until somebody lists
					code, _ := s.send("GET", "/api/v1/namespaces/default/configmaps/kube-apiserver-delete?resourceVersion=0", nil)
					ready, _ := s.send("GET", "/readyz", nil)
					return code == http.StatusOK && ready == http.StatusOK
				})
			}
			if l := members[0].link; l != nil { // a little is no fault
				l.slow(200 * time.Millisecond)
				if code, body := servers["kanzen"].send("POST", "/api/v1/namespaces/default/configmaps", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "slow"}}); code != http.StatusCreated {
					t.Errorf("a write while etcd takes 0.4 s: %d %s", code, body)
				}
				l.slow(0)
			}
			c.breaks(t, members)
			answers := map[string]map[string]faultAnswer{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for name, s := range servers {
				wg.Go(func() {
					a := askFaults(t, s.config, name)
					mu.Lock()
					defer mu.Unlock()
					answers[name] = a
				})
			}
			wg.Wait()
			own, theirs := answers["kanzen"], answers["kube-apiserver"]
			for name := range own {
				t.Logf("%-18s kanzen %d %s %.300q\n%30s kube-apiserver %d %s %.300q", name, own[name].code, own[name].reason, own[name].body, "", theirs[name].code, theirs[name].reason, theirs[name].body)
			}
			for _, name := range []string{"create", "update", "delete", "get", "list"} {
				// Etcd may give up just before the deadline, or go in the middle of a request: like kube-apiserver, kanzen passes on
				// what was said.
				if a := own[name]; a.code < 500 || a.code > 504 || a.reason == "" && !strings.Contains(a.body, "etcdserver: ") && !strings.Contains(a.body, "code = Unavailable") {
					t.Errorf("%s: %d %s %s", name, a.code, a.reason, a.body)
				}
			}
			for _, name := range []string{"get from memory", "list from memory", "namespaces (view)", "discovery", "whoami (no etcd)", "may I (no etcd)", "/livez?exclude"} {
				if a := own[name]; a.code/100 != 2 {
					t.Errorf("%s: %d %s", name, a.code, a.body)
				}
			}
			for _, name := range []string{"/readyz", "/livez/etcd"} {
				if a := own[name]; a.code != http.StatusInternalServerError || !strings.Contains(a.body, "etcd") {
					t.Errorf("%s: %d %s", name, a.code, a.body)
				}
			}
			c.mends(t, members)
			for name, s := range servers {
				within(t, 90*time.Second, name+" goes on", func(context.Context) bool {
					code, _ := s.send("GET", "/readyz", nil)
					made, _ := s.send("POST", "/api/v1/namespaces/default/configmaps", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"generateName": "after-"}})
					read, _ := s.send("GET", "/api/v1/namespaces/default/configmaps/before", nil)
					return code == http.StatusOK && made == http.StatusCreated && read == http.StatusOK
				})
			}
			if a, b := servers["kanzen"].configMaps(), servers["kube-apiserver"].configMaps(); a != b {
				t.Errorf("kanzen lists\n%s\nkube-apiserver\n%s", a, b)
			}
		})
	}
}

// configMaps are the names and revisions of all.
func (s *takeoverServer) configMaps() string {
	s.t.Helper()
	code, body := s.send("GET", "/api/v1/namespaces/default/configmaps", nil)
	var list metav1.PartialObjectMetadataList
	must(s.t, json.Unmarshal([]byte(body), &list))
	var out strings.Builder
	fmt.Fprintln(&out, code)
	for _, o := range list.Items {
		fmt.Fprintln(&out, o.Name, o.ResourceVersion)
	}
	return out.String()
}

// TestCompactedRevision asks both servers for what etcd has compacted.
func TestCompactedRevision(t *testing.T) {
	t.Parallel()
	etcd := peer.Etcd(t)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+etcd, "--controllers=", "--disable-admission-plugins=ServiceAccount")
	servers := map[string]*takeoverServer{"kanzen": {t, k.config()}, "kube-apiserver": {t, peer.StartOn(t, etcd, "--disable-admission-plugins=ServiceAccount")}}
	const maps = "/api/v1/namespaces/default/configmaps"
	for n := range 5 {
		if code, body := servers["kanzen"].send("POST", maps, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": fmt.Sprint("m-", n)}}); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	pages := map[string]string{}
	var oldest int64
	for name, s := range servers {
		_, body := s.send("GET", maps+"?limit=2", nil)
		var l metav1.PartialObjectMetadataList
		must(t, json.Unmarshal([]byte(body), &l))
		pages[name] = l.Continue
		oldest = revision(t, l.Items[0].ResourceVersion)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: 5 * time.Second})
	must(t, err)
	defer c.Close()
	for n := range 3 { // what is compacted is not in memory either once a server has been started again
		if code, _ := servers["kanzen"].send("DELETE", fmt.Sprint(maps, "/m-", n), nil); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	r, err := c.Get(t.Context(), "/")
	must(t, err)
	_, err = c.Compact(t.Context(), r.Header.Revision)
	must(t, err)
	k.end(syscall.SIGTERM)
	again := serve(t, k.dir, "--etcd-servers="+etcd, "--controllers=", "--disable-admission-plugins=ServiceAccount")
	servers["kanzen"] = &takeoverServer{t, again.config()}
	for _, path := range []string{"?resourceVersionMatch=Exact&resourceVersion=" + strconv.FormatInt(oldest, 10), "?limit=2&continue=", "?watch=1&timeoutSeconds=5&resourceVersion=1"} {
		var codes []string
		for _, name := range []string{"kanzen", "kube-apiserver"} {
			asked := path
			if strings.HasSuffix(path, "continue=") {
				asked += pages[name]
			}
			code, body := servers[name].send("GET", maps+asked, nil)
			t.Logf("%s %s: %d %s", name, path, code, body)
			codes = append(codes, fmt.Sprint(code, strings.Contains(body, `"code":410`), strings.Contains(body, `"reason":"Expired"`)))
		}
		if codes[0] != codes[1] && name410(path) || !strings.HasSuffix(codes[0], "true true") {
			t.Errorf("%s: kanzen %s, kube-apiserver %s", path, codes[0], codes[1])
		}
	}
}

// name410 says that both servers must answer in the same way: kube-apiserver may still have a page in memory, as it was not
// started again.
func name410(path string) bool { return strings.Contains(path, "watch") }

// TestFullDiskOfServer has the disk of a server's embedded etcd fill up: writes fail and say so, reads go on, /readyz tells, and
// writes go on when there is room.
func TestFullDiskOfServer(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system takes root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	k := serve(t, filepath.Join(dir, "data"), "--controllers=", "--disable-admission-plugins=ServiceAccount")
	s := &takeoverServer{t, k.config()}
	const maps = "/api/v1/namespaces/default/configmaps"
	write := func(name string) (int, string) {
		return s.send("POST", maps, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"generateName": name}, "data": map[string]any{"a": strings.Repeat("x", 10000)}})
	}
	if code, body := write("kept-"); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	must(t, err)
	for {
		var fs syscall.Statfs_t
		must(t, syscall.Statfs(dir, &fs))
		if fs.Bavail*uint64(fs.Bsize) < 80<<20 {
			break
		}
		_, err := ballast.Write(make([]byte, 1<<20))
		must(t, err)
	}
	must(t, ballast.Close())
	var code int
	var body string
	within(t, 60*time.Second, "writes are refused", func(context.Context) bool { code, body = write("more-"); return code != http.StatusCreated })
	var status metav1.Status
	must(t, json.Unmarshal([]byte(body), &status))
	t.Logf("%d %s", code, body)
	if code < 500 || status.Reason == "" || !strings.Contains(status.Message, "full") {
		t.Errorf("a write: %d %s", code, body)
	}
	if code, body := s.send("GET", "/readyz/etcd-writable", nil); code != http.StatusInternalServerError {
		t.Errorf("/readyz/etcd-writable: %d %s", code, body)
	}
	if code, body := s.send("GET", maps, nil); code != http.StatusOK || !strings.Contains(body, "kept-") {
		t.Errorf("a read: %d %s", code, body)
	}
	must(t, os.Remove(ballast.Name()))
	within(t, 60*time.Second, "writes go on", func(context.Context) bool {
		code, _ := write("again-")
		ready, _ := s.send("GET", "/readyz", nil)
		return code == http.StatusCreated && ready == http.StatusOK
	})
}

// TestCorruptFileOfServer damages the database of a server that does not run: it does not start, and says what to do.
func TestCorruptFileOfServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := serve(t, dir)
	k.end(syscall.SIGTERM)
	file := filepath.Join(dir, "etcd", "member", "snap", "db")
	info, err := os.Stat(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.Repeat("x", int(info.Size()))), 0o600))
	p := start(t, binaries.kanzen, "serve", "--data-dir", dir, "--secure-port=0")
	if code, said := p.exit(), p.stderr.String(); code == 0 || !strings.Contains(said, filepath.Join(dir, "etcd")) || !strings.Contains(said, "kanzen snapshot restore") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
