package test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConsoleOfIncident saves an incident, stops the server, and looks at what was saved in the console's page.
func TestConsoleOfIncident(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	maps := k.as("", "setup/1", nil).CoreV1().ConfigMaps("default")
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = maps.Patch(t.Context(), "settings", "application/merge-patch+json", []byte(`{"data":{"a":"1"}}`), metav1.PatchOptions{})
	must(t, err)
	_, err = k.as("eve", "curl/8", nil).CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err == nil {
		t.Fatal("eve may create secrets")
	}
	_, err = k.client().CoreV1().Events("default").Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: "Warning", Reason: "BackOff", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "settings"}}, metav1.CreateOptions{})
	must(t, err)
	out, said, code := output(t, binaries.kanzen, "record", "--kubeconfig", k.kubeconfig())
	if code != 0 || said != "" {
		t.Fatal(code, said)
	}
	k.end(syscall.SIGTERM)
	file := filepath.Join(t.TempDir(), "friday")
	must(t, os.WriteFile(file, []byte(out), 0o600))

	link := showsFile(t, file)
	address, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	b := browser(t, address)
	b.open(link, "#nav a[aria-current]")
	for selector, want := range map[string]string{"#where": k.address, "#who": "friday", "#until": "as saved at 2"} {
		if shown := b.text(selector); !strings.Contains(shown, want) {
			t.Errorf("%s shows %q, want %q", selector, shown, want)
		}
	}
	for hash, texts := range map[string][]string{
		"#/overview": {"requests a second", "configmaps"},
		"#/requests": {"configmaps default/settings", "patch", "secrets default", "eve"},
		"#/requests?verb=create&code=403&resource=secrets": {"secrets default", "eve (by kubernetes-admin)", "curl/8"},
		"#/events": {"BackOff", "ConfigMap default/settings"}, "#/events?type=Normal": {"There are none."}, "#/writers": {"setup/1", "configmaps"},
		"#/levels": {"exempt", "catch-all"}, "#/storage": {"etcd-0", "configmaps"}, "#/controllers": {"mean wait"},
	} {
		b.shows(hash, texts...)
		if said := b.text("#trouble"); said != "" {
			t.Errorf("%s: %s", hash, said)
		}
	}
	b.shows("#/requests?verb=patch&resource=configmaps&name=settings", "configmaps default/settings")
	b.picture("incident")
	b.click("#main tbody a")
	b.awaits("a request", "#main", "Its way", "etcd", "data.a")
	b.clean()
	b.refused = true // there are no objects in it
	b.shows("#/object?resource=configmaps&namespace=default&name=settings", "holds no objects", "Created", "data.a", "setup/1", "BackOff")
	b.clean()

	// Nobody else sees it: the link works once, and neither other names of this machine nor other methods are answered.
	for name, ask := range map[string]struct {
		method, host, path string
		want               int
	}{
		"the link again": {"GET", address, strings.TrimPrefix(link, "http://"+address), 403}, "the page": {"GET", address, "/console/", 403},
		"the data": {"GET", address, "/console/data/requests", 403}, "another name": {"GET", "evil.example", "/console/", 421}, "a write": {"POST", address, "/console/", 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), ask.method, "http://"+address+ask.path, nil)
		must(t, err)
		req.Host = ask.host
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != ask.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, ask.want)
		}
	}
	for path, want := range map[string]int{"requests?limit=0": 400, "requests?continue=x": 400, "requests?fieldSelector=nosuch%3D1": 400, "requests/r999999": 404, "secrets": 404, "planestats": 404,
		"objects?version=v1&resource=events&fieldSelector=nosuch%3D1": 400, "objects?version=v1&resource=pods": 403} {
		code := got(b, chromedp.Evaluate[int]("fetch('/console/data/"+path+"').then(r => r.status)", chromedp.EvalAwaitPromise))
		if code != want {
			t.Errorf("%s answers %d, want %d", path, code, want)
		}
	}
}

// showsFile runs kanzen console on a file until the test ends, and returns its link.
func showsFile(t *testing.T, file string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binaries.kanzen, "console", "--from", file, "--open=false", "-o", "json")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context has killed it
	var said struct{ Link string }
	must(t, json.NewDecoder(out).Decode(&said))
	return said.Link
}
