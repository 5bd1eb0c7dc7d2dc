package garbagecollector_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/pkg/extension"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// Thing is a kind of the extension server.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

var thingResource = schema.GroupVersionResource{Group: "ext.test", Version: "v1", Resource: "things"}

// remoteCluster is a server with an extension server behind it.
type remoteCluster struct {
	*cluster
	things dynamic.ResourceInterface
	gate   *gate
}

func startRemote(t *testing.T) *remoteCluster {
	t.Helper()
	s := kanzentest.Start(t, kanzentest.Listen())
	config := s.Config()
	config.QPS = -1
	c := &remoteCluster{cluster: &cluster{t, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}}
	server := &extension.Server{Group: "ext.test", Version: "v1"}
	extension.Add(server, extension.Kind[Thing]{})
	ctx, stop := context.WithCancel(context.Background())
	running, err := server.Start(ctx, extension.Options{Host: s.SocketConfig(), Listen: "127.0.0.1:0", Storage: extension.Memory(), Hosts: []string{"ext.default.svc"}})
	c.must(err)
	t.Cleanup(func() { stop(); _ = running.Wait() })
	c.gate = newGate(t, running.Address())
	c.register("ext", c.gate.port, running.CABundle())
	c.things = c.d.Resource(thingResource).Namespace("default")
	c.await(func(ctx context.Context) string {
		if _, err := c.things.List(ctx, metav1.ListOptions{}); err != nil {
			return "things are not served: " + err.Error()
		}
		return ""
	})
	return c
}

// register creates a service NAME and an APIService v1.NAME.test on it.
func (c *cluster) register(name string, port int32, ca []byte) {
	c.t.Helper()
	_, err := c.k.CoreV1().Services("default").Create(c.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}, metav1.CreateOptions{})
	c.must(err)
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiregistrationv1.APIService{
		TypeMeta: metav1.TypeMeta{Kind: "APIService", APIVersion: "apiregistration.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "v1." + name + ".test"},
		Spec: apiregistrationv1.APIServiceSpec{Group: name + ".test", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: ca, InsecureSkipTLSVerify: ca == nil,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: name, Port: &port}}})
	c.must(err)
	_, err = c.d.Resource(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")).Create(c.t.Context(), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	c.must(err)
}

// thing makes a thing with owners.
func (c *remoteCluster) thing(name string, refs ...metav1.OwnerReference) types.UID {
	c.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ext.test/v1", "kind": "Thing", "metadata": map[string]any{"name": name}}}
	u.SetOwnerReferences(refs)
	made, err := c.things.Create(c.t.Context(), u, metav1.CreateOptions{})
	c.must(err)
	return made.GetUID()
}

func (c *remoteCluster) deleteThing(name string, policy metav1.DeletionPropagation) {
	c.t.Helper()
	c.must(c.things.Delete(c.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// thingRef is a reference to a thing.
func thingRef(name string, uid types.UID, blocks bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "ext.test/v1", Kind: "Thing", Name: name, UID: uid, BlockOwnerDeletion: &blocks}
}

// thingsBecome waits until the things, each with its owners, are want.
func (c *remoteCluster) thingsBecome(want string) {
	c.t.Helper()
	c.await(func(ctx context.Context) string {
		list, err := c.things.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, u := range list.Items {
			text := u.GetName()
			if u.GetDeletionTimestamp() != nil {
				text += "!"
			}
			for _, r := range u.GetOwnerReferences() {
				text += "(" + r.Name + ")"
			}
			out = append(out, text)
		}
		if got := strings.Join(out, " "); got != want {
			return "the things are " + got + ", want " + want
		}
		return ""
	})
}

// Owners and dependents may be here or there, and all ways of deletion work.
func TestRemoteObjects(t *testing.T) {
	t.Parallel()
	c := startRemote(t)
	// Dependents there.
	a := c.create("a")
	c.thing("x", ref("a", a, false))
	c.delete("a", metav1.DeletePropagationBackground)
	c.thingsBecome("")
	b := c.create("b")
	c.thing("y", ref("b", b, true))
	c.delete("b", metav1.DeletePropagationForeground)
	c.becomes("")
	c.thingsBecome("")
	o := c.create("o")
	// A dependent that the collector does not know of yet is not released. This one is known once it has lost its other
	// owner, which never existed.
	c.thing("z", ref("o", o, true), ref("none", "none", false))
	c.thingsBecome("z(o)")
	c.delete("o", metav1.DeletePropagationOrphan)
	c.becomes("")
	c.thingsBecome("z")
	// Owners there.
	z, err := c.things.Get(t.Context(), "z", metav1.GetOptions{})
	c.must(err)
	c.create("of-z", thingRef("z", z.GetUID(), true))
	c.thing("part", thingRef("z", z.GetUID(), true))
	c.deleteThing("z", metav1.DeletePropagationForeground)
	c.becomes("")
	c.thingsBecome("")
	w := c.thing("w")
	c.create("of-w", thingRef("w", w, true))
	c.deleteThing("w", metav1.DeletePropagationOrphan)
	c.becomes("of-w()")
	c.thingsBecome("")
	v := c.thing("v")
	c.create("of-v", thingRef("v", v, false))
	c.create("of-both", thingRef("v", v, false), ref("of-w", c.uid("of-w"), false))
	c.create("of-nobody", thingRef("never", "0", false))
	c.deleteThing("v", metav1.DeletePropagationBackground)
	c.becomes("of-both(of-w) of-w()")
}

func (c *cluster) uid(name string) types.UID {
	c.t.Helper()
	m, err := c.k.CoreV1().ConfigMaps("default").Get(c.t.Context(), name, metav1.GetOptions{})
	c.must(err)
	return m.UID
}

// While an extension server hangs, everything else is collected, and nothing that depends on it is deleted. When it
// answers again, what has waited is done.
func TestHangingExtensionServer(t *testing.T) {
	t.Parallel()
	c := startRemote(t)
	x := c.thing("x")
	c.thing("seen", ref("never", "0", false))
	c.thingsBecome("x") // so things are followed by now
	a := c.create("a")
	c.thing("of-a", ref("a", a, true))
	p := c.create("p")
	c.thing("of-p", ref("p", p, false))
	c.thing("seen", ref("never", "0", false))
	c.thingsBecome("of-a(a) of-p(p) x")
	c.create("of-x", thingRef("x", x, true))
	c.gate.shut()
	for n := range 3 * 20 { // more than there are workers
		c.create("lost-"+strconv.Itoa(n), thingRef("never", "0", false))
	}
	owner := c.create("owner")
	c.create("dependent", ref("owner", owner, true))
	c.delete("a", metav1.DeletePropagationForeground)
	c.delete("p", metav1.DeletePropagationOrphan)
	c.delete("owner", metav1.DeletePropagationForeground)
	c.await(func(ctx context.Context) string {
		if _, err := c.k.CoreV1().ConfigMaps("default").Get(ctx, "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the collection of local objects waits for the extension server"
		}
		return ""
	})
	there := c.there(t.Context())
	for _, name := range []string{"a!()", "p!()", "of-x(x)", "lost-0(never)", "lost-59(never)"} {
		if !strings.Contains(there, name) {
			t.Errorf("there is no %s: %s", name, there)
		}
	}
	c.gate.open()
	c.becomes("of-x(x)")
	c.thingsBecome("of-p x")
}

// An extension server that loses what it had, and says 404 to everything, has nothing deleted.
func TestLyingExtensionServer(t *testing.T) {
	t.Parallel()
	config := kanzentest.Start(t).Config()
	config.QPS = -1
	c := &cluster{t, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}
	var lies atomic.Bool
	asked := make(chan string, 100)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	object := map[string]any{"apiVersion": "lie.test/v1", "kind": "Thing", "metadata": map[string]any{"name": "x", "namespace": "default", "uid": "1", "resourceVersion": "1"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/lie.test/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "lie.test/v1", APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"get", "list", "watch", "delete"}}}})
	})
	mux.HandleFunc("GET /apis/lie.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("watch") != "":
			w.WriteHeader(http.StatusGone) // list anew
		case lies.Load():
			answer(w, map[string]any{"kind": "ThingList", "metadata": map[string]any{"resourceVersion": "2"}, "items": []any{}})
		default:
			answer(w, map[string]any{"kind": "ThingList", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{object}})
		}
	})
	mux.HandleFunc("GET /apis/lie.test/v1/namespaces/default/things/{name}", func(w http.ResponseWriter, r *http.Request) {
		if lies.Load() || r.PathValue("name") != "x" {
			select {
			case asked <- r.PathValue("name"):
			default:
			}
			http.NotFound(w, r)
			return
		}
		answer(w, object)
	})
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	c.register("lie", int32(s.Listener.Addr().(*net.TCPAddr).Port), nil)
	c.await(func(ctx context.Context) string {
		_, err := c.d.Resource(schema.GroupVersionResource{Group: "lie.test", Version: "v1", Resource: "things"}).Namespace("default").Get(ctx, "x", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	c.create("of-x", metav1.OwnerReference{APIVersion: "lie.test/v1", Kind: "Thing", Name: "x", UID: "1"})
	lies.Store(true)
	for range 2 { // it is asked because the list has lost the owner, and again after the first answer was judged
		select {
		case <-asked:
		case <-time.After(30 * time.Second):
			t.Fatal("the extension server is not asked for the owner; there is " + c.there(t.Context()))
		}
	}
	c.becomes("of-x(x)")
}

// gate passes connections on while it is open. Shut, it keeps them and passes nothing, as a hanging server does.
type gate struct {
	port int32
	mu   sync.Mutex
	wait chan struct{} // closed while the gate is open
}

func newGate(t *testing.T, to string) *gate {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g := &gate{port: int32(l.Addr().(*net.TCPAddr).Port), wait: make(chan struct{})}
	close(g.wait)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go g.pass(in, out)
			go g.pass(out, in)
		}
	}()
	return g
}

func (g *gate) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		g.mu.Lock()
		wait := g.wait
		g.mu.Unlock()
		<-wait
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.wait)
}
