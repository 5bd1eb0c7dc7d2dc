package planes

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// several are servers that share a log and reach each other.
type several struct {
	db      store.DB
	classes []process.Class
	all     []*ground
}

func startSeveral(t testing.TB, n int) *several {
	db := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = db.Close() })
	s := &several{db: db}
	for range n {
		s.join(t)
	}
	return s
}

// severalOn starts servers that have storage classes.
func severalOn(t testing.TB, l *logs, n int) *several {
	s := &several{db: l.root, classes: l.given(nil).Classes}
	for range n {
		s.join(t)
	}
	return s
}

// join starts one more.
func (s *several) join(t testing.TB, gates ...string) *ground {
	cfg := settings(t.TempDir())
	cfg.FeatureGates = append(cfg.FeatureGates, gates...)
	cfg.NoListener, cfg.BindAddress, cfg.SecurePort = false, net.IPv4(127, 0, 0, 1), 0
	cfg.EtcdServers = []string{"http://given.example:2379"}
	g := startWith(t, cfg, process.Given{DB: s.db, Classes: s.classes})
	s.all = append(s.all, g)
	return g
}

// self is the name of a server.
func (g *ground) self() string { return g.owners.Load().Self().Name }

// client returns a client of a plane at one of the servers, as its administrator, over TLS.
func (g *ground) over(t testing.TB, plane string) apiclient.Client {
	t.Helper()
	var secret corev1.Secret
	if err := g.root.Do(t.Context(), http.MethodGet, secretsPath+"/"+kubeconfigSecret(plane), "", nil, &secret); err != nil {
		t.Fatal(err)
	}
	var k clientcmdv1.Config
	if err := yaml.Unmarshal(secret.Data[KubeconfigKey], &k); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(k.AuthInfos[0].AuthInfo.ClientCertificateData, k.AuthInfos[0].AuthInfo.ClientKeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	block, _ := pem.Decode(g.plane.Authority())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return apiclient.Client{RoundTripper: transport, URL: g.plane.URL() + pathPrefix + plane, Agent: "test"}
}

// awakeOn returns how many servers have a plane awake.
func (s *several) awakeOn(name string) (n int) {
	for _, g := range s.all {
		if h := g.find(name); h != nil && h.awake() {
			n++
		}
	}
	return n
}

// A plane is awake on one server, whichever is asked; the others pass requests on, with the client's certificate and address, and say who
// has it.
func TestOneOwner(t *testing.T) {
	s := startSeveral(t, 3)
	s.all[0].create(t, "one", PlaneSpec{})
	for n, g := range s.all {
		c := g.over(t, "one")
		body := map[string]any{"metadata": map[string]any{"name": fmt.Sprint("c", n)}}
		if err := c.Do(t.Context(), http.MethodPost, configMaps, "application/json", body, nil); err != nil {
			t.Fatal(err)
		}
		var list corev1.ConfigMapList
		if err := c.Do(t.Context(), http.MethodGet, configMaps+"?fieldSelector=metadata.name!=kube-root-ca.crt", "", nil, &list); err != nil || len(list.Items) != n+1 {
			t.Errorf("server %d: %d objects, %v", n, len(list.Items), err)
		}
		var who struct {
			Status struct {
				UserInfo struct{ Username string } `json:"userInfo"`
			} `json:"status"`
		}
		review := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
		if err := c.Do(t.Context(), http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json", review, &who); err != nil || who.Status.UserInfo.Username != "kubernetes-admin" {
			t.Errorf("server %d: %+v, %v", n, who, err)
		}
		if n := s.awakeOn("one"); n != 1 {
			t.Errorf("the plane is awake on %d servers", n)
		}
	}
	// A server that is asked in somebody's name, and has not the plane, passes that on too.
	for _, g := range s.all {
		for _, to := range s.all {
			o := g.owners.Load()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://plane"+configMaps, nil)
			answer, err := o.Transport(o.Named(to.self()), pathPrefix+"one", controlplane.Itself()).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("from %s to %s: %s", g.self(), to.self(), answer.Status)
			}
		}
	}
	p := s.all[1].await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.server() != "" })
	if owner := s.all[0].owners.Load().Named(p.Status.server()); owner == nil {
		t.Errorf("no server is called %q", p.Status.server())
	}
	// Nobody is let in because of what a client says of itself.
	for _, g := range s.all {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.plane.URL()+pathPrefix+"one"+configMaps, nil)
		r.Header.Set("Kanzen-Client-User", `{"Name":"kubernetes-admin","Groups":["system:masters"]}`)
		r.Header.Set("Kanzen-Client-Address", "127.0.0.1:1")
		r.Header.Set("Kanzen-Passed", "1")
		for _, name := range []string{"", "planes.kanzen.internal"} {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: name}}}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("a client that claims to be a server (%q): %s", name, answer.Status)
			}
			client.CloseIdleConnections()
		}
	}
	for _, g := range s.all {
		g.logged(g.find("one"), g.find("one").sleep())
	}
	s.all[2].await(t, "one", func(p *Plane) bool { return p.Status.State == asleep && p.Status.server() == "" })
	if n := s.awakeOn("one"); n != 0 {
		t.Errorf("it sleeps on all servers and is awake on %d", n)
	}
}

// watch counts the events of ConfigMaps in a plane, over breaks, by the resourceVersion of the last; twice says that one came again.
type counting struct {
	seen, breaks atomic.Int64
	twice        atomic.Bool
	relists      atomic.Int64
}

func (n *counting) follow(t *testing.T, c apiclient.Client, from string) {
	versions := map[string]bool{}
	for t.Context().Err() == nil {
		answer, err := c.Send(t.Context(), http.MethodGet, configMaps+"?watch=true&resourceVersion="+from, "", nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			if err == nil {
				if answer.StatusCode == http.StatusGone {
					n.relists.Add(1)
				}
				_ = answer.Body.Close()
			}
			time.Sleep(time.Millisecond)
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			var e struct {
				Type   string
				Object metav1.PartialObjectMetadata
			}
			if json.Unmarshal(lines.Bytes(), &e) != nil || e.Type == "ERROR" {
				n.relists.Add(1)
				break
			}
			from = e.Object.ResourceVersion
			if e.Object.Name == "kube-root-ca.crt" { // each of these servers has an authority of its own
				continue
			}
			if versions[from] {
				n.twice.Store(true)
			}
			versions[from] = true
			n.seen.Add(1)
		}
		_ = answer.Body.Close()
		n.breaks.Add(1)
	}
}

// A plane moves between servers while it is written to and watched: no write that was acknowledged is lost, no watch misses an event, sees
// one twice or has to list anew, and nobody waits long.
func TestMove(t *testing.T) {
	s := startSeveral(t, 2)
	a, b := s.all[0], s.all[1]
	a.create(t, "one", PlaneSpec{})
	var list corev1.ConfigMapList
	c := a.over(t, "one")
	if err := c.Do(t.Context(), http.MethodGet, configMaps, "", nil, &list); err != nil {
		t.Fatal(err)
	}
	var watches [2]counting
	for n, g := range s.all {
		go watches[n].follow(t, g.over(t, "one"), list.ResourceVersion)
	}
	var written, longest atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			for {
				err := c.Do(t.Context(), http.MethodPost, configMaps, "application/json", map[string]any{"metadata": map[string]any{"name": fmt.Sprint("c", n)}}, nil)
				if err == nil || strings.Contains(err.Error(), "already exists") {
					break
				}
				time.Sleep(time.Millisecond)
			}
			written.Add(1)
			longest.Store(max(longest.Load(), int64(time.Since(began))))
		}
	}()
	const moves = 6
	for n := range moves {
		to := s.all[n%2]
		a.prefer(t, "one", to.self())
		a.await(t, "one", func(p *Plane) bool { return p.Status.State == awake && p.Status.server() == to.self() })
		if s.awakeOn("one") != 1 || !to.find("one").awake() {
			t.Error("it is awake elsewhere than its status says")
		}
		before := written.Load()
		eventually(t, "nothing is written after a move", func() bool { return written.Load() > before+20 })
	}
	close(stop)
	<-done
	if err := b.over(t, "one").Do(t.Context(), http.MethodGet, configMaps+"?fieldSelector=metadata.name!=kube-root-ca.crt", "", nil, &list); err != nil || int64(len(list.Items)) != written.Load() {
		t.Errorf("%d were written, %d are there: %v", written.Load(), len(list.Items), err)
	}
	for n := range watches {
		for end := time.Now().Add(10 * time.Second); watches[n].seen.Load() < written.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("watch %d misses something: %d events of %d writes, %d breaks", n, watches[n].seen.Load(), written.Load(), watches[n].breaks.Load())
				break
			}
		}
		if watches[n].twice.Load() || watches[n].relists.Load() > 0 || watches[n].seen.Load() > written.Load() {
			t.Errorf("%d events of %d writes, %d lists anew, twice: %v", watches[n].seen.Load(), written.Load(), watches[n].relists.Load(), watches[n].twice.Load())
		}
	}
	t.Logf("%d moves, %d writes, none took longer than %v", moves, written.Load(), time.Duration(longest.Load()))
}

// prefer names the server that is to have a plane.
func (g *ground) prefer(t *testing.T, plane, server string) {
	t.Helper()
	if err := g.root.Do(t.Context(), http.MethodPatch, planesPath+"/"+plane, apiclient.MergePatch, map[string]any{"spec": map[string]any{"server": server}}, nil); err != nil {
		t.Fatal(err)
	}
}

// The planes of a server that stops are awake on the others at once.
func TestServerStops(t *testing.T) {
	s := startSeveral(t, 3)
	gone := s.all[0]
	for n := range 8 {
		name := fmt.Sprint("p", n)
		gone.create(t, name, PlaneSpec{Server: gone.self()})
		gone.must(t, name, "POST", configMaps, `{"metadata":{"name":"c"}}`, nil)
		if !gone.find(name).awake() {
			t.Fatalf("%s is not where it is to be", name)
		}
	}
	gone.stop()
	s.all = s.all[1:]
	for n := range 8 {
		name := fmt.Sprint("p", n)
		eventually(t, "a plane of a server that has stopped stays asleep", func() bool { return s.awakeOn(name) == 1 })
		for _, g := range s.all {
			if err := g.over(t, name).Do(t.Context(), http.MethodGet, configMaps+"/c", "", nil, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A server with other settings makes the first objects of a plane that it takes; one with the same does not look for them.
func TestFirstObjectsElsewhere(t *testing.T) {
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node-problem-detector"
	for name, gates := range map[string][]string{"same": nil, "other": {"RemoteRequestHeaderUID=false"}} {
		t.Run(name, func(t *testing.T) {
			s := startSeveral(t, 1)
			first := s.all[0]
			first.create(t, "p", PlaneSpec{Server: first.self()})
			first.must(t, "p", "DELETE", role, "", nil)
			eventually(t, "its status does not say what its first objects are of", func() bool {
				var p Plane
				return first.root.Do(t.Context(), http.MethodGet, planesPath+"/p", "", nil, &p) == nil && p.Status.FirstObjects == first.firstObjects()
			})
			second := s.join(t, gates...) // which has not made the plane
			first.stop()
			if err := second.over(t, "p").Do(t.Context(), http.MethodGet, role, "", nil, nil); apierrors.IsNotFound(err) != (gates == nil) {
				t.Errorf("what was deleted: %v", err)
			}
		})
	}
}

// A provider of exports uses planes wherever they are, and deleting a plane ends it on the server that has it.
func TestOwnersOfExports(t *testing.T) {
	for _, class := range []string{"", "b"} {
		t.Run("class "+class, func(t *testing.T) { testOwnersOfExports(t, severalOn(t, newLogs(t), 2), class) })
	}
}

func testOwnersOfExports(t *testing.T, s *several, class string) {
	a, b := s.all[0], s.all[1]
	a.create(t, "provider", PlaneSpec{Server: a.self(), StorageClass: class})
	alice := a.create(t, "alice", PlaneSpec{Server: b.self(), StorageClass: class})
	a.export(t, `{"planes":["alice"]}`)
	a.bind(t, "alice", "")
	a.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	if !b.find("alice").awake() || a.find("alice").awake() {
		t.Error("a plane is not on the server that its Plane names")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://root/exports/widgets/planes/alice/apis/example.com/v1/widgets", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := a.Transport("provider", controlplane.Itself()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the kinds of a plane on another server: %s", answer.Status)
	}
	a.delete(t, "alice", nil)
	eventually(t, "a plane that was deleted by another server stays", func() bool { return b.find("alice") == nil })
	if n, _, err := usage(t.Context(), a.classes[class].db, Prefix+string(alice.UID)); err != nil || n > 0 {
		t.Errorf("%d keys of a plane that was deleted are left: %v", n, err)
	}
	eventually(t, "the log still says who has a plane that is gone", func() bool { return len(b.owners.Load().Planes()) == 1 })
}

// A watch of a plane ends with the plane, although its connection does not.
func TestWatchEnds(t *testing.T) {
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.administrator(t, "one") // while its secret is there
	code := make(chan int, 1)
	go func() {
		c, _ := g.ask(t, "one", "one", "GET", configMaps+"?watch=true", "")
		code <- c
	}()
	eventually(t, "nobody watches", func() bool { return g.find("one").watching.Load() == 1 })
	g.delete(t, "one", nil)
	select {
	case c := <-code:
		if c != http.StatusOK && c != http.StatusGatewayTimeout { // it may have been about to begin
			t.Error(c)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}
