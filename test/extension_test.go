package test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// host is a cluster with an extension server behind it.
type host struct {
	name, kubeconfig string
	config           *rest.Config
}

// hosts are kanzen and kube-apiserver.
func hosts(t *testing.T) []host {
	t.Helper()
	proxy := pkitest.Server(t, "front-proxy")
	ca, key := proxy.Write(t, t.TempDir())
	k := serve(t, t.TempDir())
	p := host{name: "kube-apiserver", kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	p.config = peer.Start(t, "--proxy-client-cert-file", ca, "--proxy-client-key-file", key, "--requestheader-client-ca-file", ca,
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--requestheader-allowed-names", "front-proxy")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"peer": {Server: p.config.Host, InsecureSkipTLSVerify: true}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {Token: p.config.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{"peer": {Cluster: "peer", AuthInfo: "admin"}}, CurrentContext: "peer",
	}, p.kubeconfig))
	return []host{{"kanzen", k.kubeconfig(), k.config()}, p}
}

// extend runs an example of pkg/extension behind a host.
func (h *host) extend(t *testing.T, program, group, version string) {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	start(t, program, "--kubeconfig", h.kubeconfig, "--listen", "127.0.0.1:"+port, "--data-dir", dir, "--tls-hosts", "api.extension.svc")
	var bundle []byte
	within(t, time.Minute, "the example has a certificate", func(context.Context) bool {
		var err error
		bundle, err = os.ReadFile(filepath.Join(dir, "tls.crt"))
		return err == nil
	})
	c := kubernetes.NewForConfigOrDie(h.config)
	registerLocal(t, c, "extension", "api", port, bundle, group+"/"+version)
	within(t, time.Minute, "its documents are merged", func(ctx context.Context) bool {
		_, err := c.RESTClient().Get().AbsPath("/openapi/v3/apis/" + group + "/" + version).DoRaw(ctx)
		return err == nil && aggregatedGroup(t, c.RESTClient(), group) != ""
	})
}

// transient is what differs from one run to the next.
var transient = regexp.MustCompile(`\b\d+(s|m|Mi)\b|[0-9]{4}-[0-9-]+T[0-9:]+Z`)

// transcript is what kubectl says to some commands, and its exit codes.
func (h *host) transcript(t *testing.T, commands ...string) string {
	t.Helper()
	var b strings.Builder
	cache := t.TempDir()
	for _, c := range commands {
		args := append([]string{"--kubeconfig", h.kubeconfig, "--cache-dir", cache}, strings.Fields(c)...)
		stdout, stderr, code := output(t, binaries.kubectl, args...)
		text := regexp.MustCompile(` +`).ReplaceAllString(transient.ReplaceAllString(stdout+stderr, "*"), " ")
		b.WriteString("$ kubectl " + c + "\n" + text + "exit code " + strconv.Itoa(code) + "\n")
	}
	return b.String()
}

// alike compares what two hosts said, and looks for what must be in it.
func alike(t *testing.T, said []string, parts ...string) {
	t.Helper()
	if said[0] != said[1] {
		t.Errorf("kanzen:\n%s\nkube-apiserver:\n%s", said[0], said[1])
	}
	for _, p := range parts {
		if !strings.Contains(said[0], p) {
			t.Errorf("%q is not in:\n%s", p, said[0])
		}
	}
}

// TestExtensionThings runs the example with a storage of its own behind kanzen and behind kube-apiserver.
func TestExtensionThings(t *testing.T) {
	t.Parallel()
	program, err := build("THINGS", filepath.Join(t.TempDir(), "things"), "..", "./pkg/extension/examples/things")
	must(t, err)
	manifest := func(spec string) string {
		return writeManifest(t, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: one, namespace: default}\nspec: "+spec+"\n")
	}
	first, second, odd, wrong := manifest("{color: red}"), manifest("{color: blue, size: 3}"), manifest("{colour: red}"), manifest("{size: large}")
	var said []string
	for _, h := range hosts(t) {
		h.extend(t, program, "example.com", "v1")
		w := start(t, binaries.kubectl, "--kubeconfig", h.kubeconfig, "--cache-dir", t.TempDir(), "get", "things", "-w", "--no-headers", "--output-watch-events")
		text := h.transcript(t,
			"apply -f "+first, "apply -f "+first, "get things", "get th one -o jsonpath={.spec}",
			"apply -f "+second, "get thing one", "label thing one a=b", "get things -l a=b -o name", "get things --field-selector metadata.name=two",
			"patch thing one --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/size\",\"value\":9}]", "get things -o wide",
			"apply --server-side -f "+first, "apply --server-side --force-conflicts -f "+first,
			"patch thing one --subresource=status --type=merge -p {\"status\":{\"phase\":\"Done\"}}", "get thing one -o jsonpath={.status}{.metadata.generation}",
			"create -f "+odd, "apply -f "+wrong, "create -f "+first, "diff -f "+first,
			"explain thing", "explain thing.spec.size", "api-resources --api-group=example.com", "describe thing one",
			"auth can-i list things", "auth can-i list things --as=nobody", "get things --as=nobody",
			"delete thing one", "get thing one", "get things")
		// What names a temporary file, and the identity of the object.
		text = regexp.MustCompile(`/tmp/\S+/`).ReplaceAllString(text, "")
		text = regexp.MustCompile(`(UID|Resource Version): \S+`).ReplaceAllString(text, "$1: *")
		said = append(said, text)
		for _, want := range []string{"ADDED one 1 red", "MODIFIED one 3 blue", "MODIFIED one 3 blue", "MODIFIED one 9 blue"} {
			expectLine(t, h.name, w, want)
		}
		w.kill()
	}
	alike(t, said, "thing.example.com/one created", "thing.example.com/one unchanged", "NAME SIZE COLOR AGE\none 1 red *", "one 9 blue",
		`unknown field "spec.colour"`, "How large the thing is.", "things th example.com/v1 true Thing", `User "nobody" cannot list resource "things"`,
		`thing.example.com "one" deleted`, `things.example.com "one" not found`)
}

// TestExtensionPodMetrics runs the example that computes its objects behind kanzen and behind kube-apiserver.
func TestExtensionPodMetrics(t *testing.T) {
	t.Parallel()
	program, err := build("PODMETRICS", filepath.Join(t.TempDir(), "podmetrics"), "..", "./pkg/extension/examples/podmetrics")
	must(t, err)
	manifest := writeManifest(t, "apiVersion: metrics.k8s.io/v1beta1\nkind: PodMetrics\nmetadata: {name: one, namespace: default}\ntimestamp: null\n")
	var said []string
	for _, h := range hosts(t) {
		h.extend(t, program, "metrics.k8s.io", "v1beta1")
		w := start(t, binaries.kubectl, "--kubeconfig", h.kubeconfig, "--cache-dir", t.TempDir(), "get", "podmetrics", "-w", "--no-headers", "--output-watch-events")
		expectLine(t, h.name, w, "ADDED podmetrics")
		w.kill()
		text := h.transcript(t, "get podmetrics", "get podmetrics podmetrics -o jsonpath={.containers[0].name}", "get podmetrics -l app=other",
			"top pods", "explain podmetrics.containers.usage --api-version=metrics.k8s.io/v1beta1", "api-resources --api-group=metrics.k8s.io",
			"apply -f "+manifest+" --validate=false", "delete podmetrics podmetrics", "auth can-i list pods.metrics.k8s.io",
			"auth can-i list pods.metrics.k8s.io --as=nobody", "get podmetrics --as=nobody")
		said = append(said, regexp.MustCompile(`/tmp/\S+/`).ReplaceAllString(text, ""))
	}
	alike(t, said, "podmetrics *", "self", "CPU(cores)", "CPU and memory.", "MethodNotAllowed", `User "nobody" cannot list resource "pods" in API group "metrics.k8s.io"`)
}
