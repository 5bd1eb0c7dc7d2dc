package test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// planesOf runs kubectl on a server, or on a plane of it.
type planesOf struct {
	*kanzen
	test *testing.T
}

func (p planesOf) kubectl(kubeconfig, stdin string, args ...string) string {
	p.test.Helper()
	cmd := exec.CommandContext(p.test.Context(), binaries.kubectl, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.test.Fatalf("kubectl %q: %v\n%s\n%s", args, err, out, p.stderr.String())
	}
	return string(out)
}

// plane creates a plane by kubectl and returns the path of its kubeconfig, which `kanzen kubeconfig` prints.
func (p planesOf) plane(name, spec string) string {
	p.test.Helper()
	p.kubectl(p.kubeconfig(), fmt.Sprintf("apiVersion: planes.kanzen.io/v1\nkind: Plane\nmetadata: {name: %s}\nspec: {%s}\n", name, spec), "create", "-f", "-")
	return p.configOf(name)
}

func (p planesOf) configOf(name string) string {
	p.test.Helper()
	stdout, stderr, code := output(p.test, binaries.kanzen, "kubeconfig", "--data-dir", p.dir, "--plane", name)
	if code != 0 {
		p.test.Fatal(stderr)
	}
	path := filepath.Join(p.test.TempDir(), name)
	must(p.test, os.WriteFile(path, []byte(stdout), 0o600))
	return path
}

// TestPlanes uses planes as their users do: with kubectl, with an informer that goes on through restarts, by name and by path, and with
// definitions; one is deleted, and the server is killed.
func TestPlanes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := []string{"--planes", "--planes-domain=planes.test", "--planes-idle=1s"}
	p := planesOf{serve(t, dir, flags...), t}
	one := p.plane("one", "")
	two := p.plane("two", "")
	if _, stderr, code := output(t, binaries.kanzen, "kubeconfig", "--data-dir", dir, "--plane", "none"); code == 0 || !strings.Contains(stderr, `no plane "none"`) {
		t.Errorf("a plane that is not there: %d %s", code, stderr)
	}
	p.kubectl(one, "", "create", "namespace", "shop")
	p.kubectl(one, "", "create", "configmap", "c", "-n", "shop", "--from-literal=a=b")
	p.kubectl(one, definitionOfThings, "apply", "-f", "-")
	p.kubectl(one, "", "wait", "--for=condition=Established", "crd/things.example.com")
	p.kubectl(one, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, namespace: shop}\nspec: {size: 3}\n", "apply", "-f", "-")
	if out := p.kubectl(one, "", "explain", "thing.spec.size"); !strings.Contains(out, "How large it is") {
		t.Errorf("explain: %s", out)
	}
	if out := p.kubectl(two, "", "get", "namespaces"); strings.Contains(out, "shop") {
		t.Errorf("the other plane has it too: %s", out)
	}
	if out := p.kubectl(p.kubeconfig(), "", "get", "planes"); !strings.Contains(out, "one    True") {
		t.Errorf("%s", out)
	}

	c, err := clientcmd.BuildConfigFromFlags("", one)
	must(t, err)
	seen, stop := informed(t, kubernetes.NewForConfigOrDie(c))
	defer stop()
	seen.await("c")

	// The name in TLS is as good as the path.
	byName := rest.CopyConfig(c)
	byName.Host = "https://one.planes.test:" + p.port()
	byName.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, p.address)
	}
	k := kubernetes.NewForConfigOrDie(byName)
	if _, err := k.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "by-name"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	seen.await("by-name")

	for n, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		port := p.port()
		p.end(signal)
		p.kanzen = serve(t, dir, append(flags, "--secure-port="+port)...)
		name := fmt.Sprintf("after-%d", n)
		p.kubectl(one, "", "create", "configmap", name, "-n", "shop")
		seen.await(name)
		p.kubectl(one, "", "get", "thing", "t", "-n", "shop")
	}
	p.kubectl(p.kubeconfig(), "", "delete", "plane", "two")
	if out := p.kubectl(p.kubeconfig(), "", "get", "planes,secrets", "-n", "kanzen-planes"); strings.Contains(out, "two") {
		t.Errorf("what is left: %s", out)
	}
	two = p.plane("two", "limits: {objects: 5}")
	if out := p.kubectl(two, "", "get", "namespaces"); strings.Contains(out, "shop") {
		t.Errorf("a new one: %s", out)
	}
	refused := false
	config, err := clientcmd.BuildConfigFromFlags("", two)
	must(t, err)
	for n := range 10 {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", n)}}, metav1.CreateOptions{})
		refused = refused || apierrors.IsForbidden(err)
	}
	if !refused {
		t.Error("ten objects in a plane that may have five")
	}
}

const definitionOfThings = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, description: How large it is.}}}
`

// followed are the ConfigMaps of a namespace as an informer has them.
type followed struct {
	t     *testing.T
	mu    sync.Mutex
	names map[string]bool
}

// informed starts an informer, which must go on by itself whatever happens to the server.
func informed(t *testing.T, k kubernetes.Interface) (*followed, func()) {
	f := &followed{t: t, names: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(k, 0, informers.WithNamespace("shop"))
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.names[obj.(*corev1.ConfigMap).Name] = true
	}})
	must(t, err)
	factory.Start(ctx.Done())
	return f, func() { stop(); factory.Shutdown() }
}

func (f *followed) await(name string) {
	f.t.Helper()
	within(f.t, time.Minute, "the informer sees "+name, func(context.Context) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.names[name]
	})
}
