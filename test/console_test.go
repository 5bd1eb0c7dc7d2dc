package test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// screenshots is where pictures of the console's views are put, for docs/console.
var screenshots = flag.String("screenshots", "", "directory for pictures of the console's views; none: they are not kept")

// browserTime bounds one step of a browser, on a busy machine.
const browserTime = 60 * time.Second

// tab is a page in a headless browser, and what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu        sync.Mutex
	wrong     []string // errors in its console, dialogs, requests to elsewhere; guarded by mu
	refused   bool     // answers 401 and 403 are expected; guarded by mu
	forgotten bool     // answers 404 are expected; guarded by mu
}

// browser starts a headless browser for the pages of one server, or skips the test if there is none.
func browser(t *testing.T, address string) *tab {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, _ = exec.LookPath(name); path != "" {
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium on this machine: apt-get install chromium")
	}
	// The directory is not the test's own: children of the browser write into it a moment longer than it lives.
	dir, err := os.MkdirTemp(binaries.dir, "chromium-")
	must(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(browserTime))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	must(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complain("exception: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				b.complain("console: %v", e.Args)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				b.complain("log: %s (%s)", e.Entry.Text, e.Entry.URL)
			}
		case *cdppage.EventJavascriptDialogOpening:
			b.complain("a dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme != "about" && u.Host != address {
				b.complain("a request to %s", e.Request.URL)
			}
		}
	}))
	b.run(chromedp.EmulateViewport(1280, 800))
	return b
}

func (b *tab) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := fmt.Sprintf(format, args...)
	if b.refused && strings.HasPrefix(said, "log: Failed to load resource") && (strings.Contains(said, "401") || strings.Contains(said, "403")) {
		return
	}
	if b.forgotten && strings.HasPrefix(said, "log: Failed to load resource") && strings.Contains(said, "404") {
		return
	}
	b.wrong = append(b.wrong, said)
}

// clean fails the test if something went wrong.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Error(w)
	}
	b.wrong = nil
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTime)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// got returns the result of an action.
func got[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserTime)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// open goes to an address, and waits for an element of it.
func (b *tab) open(address, selector string) {
	b.t.Helper()
	b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	b.finds(selector)
}

// finds waits for an element.
func (b *tab) finds(selector string) {
	b.t.Helper()
	for end := time.Now().Add(browserTime); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got(b, chromedp.Evaluate[bool](fmt.Sprintf("document.querySelector(%q) !== null", selector))) {
			return
		}
	}
	b.t.Fatalf("there is no %s:\n%s\n%s", selector, b.text("#main"), b.text("#trouble"))
}

// click clicks the first element that matches.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.finds(selector)
	got(b, chromedp.Evaluate[bool](fmt.Sprintf("(document.querySelector(%q).click(), true)", selector)))
}

// text returns what an element shows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return got(b, chromedp.Evaluate[string](fmt.Sprintf("(e => e ? [e, ...e.querySelectorAll('svg')].map(n => n.innerText ?? n.textContent).join(' ') : '')(document.querySelector(%q))", selector)))
}

// shows opens a view and waits until it has all of the texts.
func (b *tab) shows(hash string, texts ...string) {
	b.t.Helper()
	got(b, chromedp.Evaluate[string](fmt.Sprintf("location.hash = %q", hash)))
	b.awaits(hash, "#main", texts...)
}

func (b *tab) awaits(what, selector string, texts ...string) {
	b.t.Helper()
	var last string
	for end := time.Now().Add(browserTime); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		last = b.text(selector)
		missing := ""
		for _, want := range texts {
			if !strings.Contains(last, want) {
				missing = want
			}
		}
		if missing == "" {
			return
		}
	}
	b.t.Fatalf("%s: %s does not show %q:\n%s\ntrouble: %s", got(b, chromedp.Location()), what, texts, last, b.text("#trouble"))
}

func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png := got(b, chromedp.CaptureScreenshot())
	must(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}

// consoleLink is what `kanzen console` says.
func (k *kanzen) consoleLink(t *testing.T) string {
	t.Helper()
	var said struct{ Link, Fingerprint string }
	must(t, json.Unmarshal([]byte(k.tells("console", "--open=false", "-o", "json")), &said))
	if !strings.HasPrefix(said.Link, "https://"+k.address+"/console/#code=") || len(said.Fingerprint) != 64 {
		t.Fatalf("%+v", said)
	}
	return said.Link
}

// hostile are names and texts that would do something if the page took them for markup.
const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>"'&`

// keepBusy makes requests of all kinds until the test ends.
func keepBusy(t *testing.T, k *kanzen) {
	admin := k.as("", "setup/1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	at, ca := answering(t, 20*time.Millisecond, "refused", "no")
	_, err := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook("h", at, ca, nil), metav1.CreateOptions{})
	must(t, err)
	_, err = admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "evil",
		Annotations: map[string]string{"note": strings.Repeat(hostile, 256<<10/len(hostile)-100)}}, Data: map[string]string{"a": "0"}}, metav1.CreateOptions{})
	must(t, err)
	evil := k.as("", hostile, nil)
	evilConfig := k.config()
	evilConfig.Impersonate.UserName, evilConfig.Impersonate.Groups, evilConfig.UserAgent = hostile, []string{"system:masters"}, "evil/1"
	crds := apiextensions.NewForConfigOrDie(k.config()).ApiextensionsV1().CustomResourceDefinitions()
	_, err = crds.Create(ctx, definition(), metav1.CreateOptions{})
	must(t, err)
	for n, c := range []*kubernetes.Clientset{admin, k.as("alice", "kubectl/v1.36", nil), evil, kubernetes.NewForConfigOrDie(evilConfig)} {
		all.Go(func() {
			maps := c.CoreV1().ConfigMaps("default")
			if w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "a=b"}); err == nil {
				defer w.Stop()
			}
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(map[bool]string{i%5 == 0: "refused"}[true], fmt.Sprintf("m-%d-%d", n, i))}}, metav1.CreateOptions{})
				_, _ = maps.Patch(ctx, "evil", "application/merge-patch+json", fmt.Appendf(nil, `{"data":{"a":"<b>%d-%d</b>"}}`, n, i), metav1.PatchOptions{})
				_, _ = maps.Get(ctx, "evil", metav1.GetOptions{})
				_, _ = maps.List(ctx, metav1.ListOptions{Limit: 5})
				_, _ = c.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			}
		})
	}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}}}}}}
}

// TestConsole looks at each view in a browser, while the server has work to do.
func TestConsole(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	b := browser(t, k.address)
	keepBusy(t, k)
	link := k.consoleLink(t)
	b.open(link, "#nav a[aria-current]")
	if who := b.text("#who"); who != "kubernetes-admin" {
		t.Errorf("signed in as %q", who)
	}
	if context := b.text("#context"); context == "" {
		t.Error("the header does not say which context of the kubeconfig it is")
	}
	if at := got(b, chromedp.Location()); strings.Contains(at, "code") {
		t.Errorf("the code stands in the address: %s", at)
	}
	b.awaits("the findings", "#main", "fight over data.a of configmap evil")
	b.click("ol.findings summary") // what to do about a warning is shown to who asks
	for _, view := range []struct {
		hash  string
		shows []string
	}{
		{"#/overview", []string{"What is wrong now", "fight over data.a of configmap evil", "kanzen why configmaps/evil -n default", "requests a second", "Requests a second", "Latency", "p99", "Memory", "create", "configmaps", "kubectl/v1.36", "alice", "authorization", "etcd", hostile}},
		{"#/requests", []string{hostile, "configmaps default/evil", "patch", "403"}},
		{"#/requests?verb=create&code=403", []string{"create", "403", "Refused"}},
		{"#/requests?by=user", []string{"alice (by kubernetes-admin)", "time in all", hostile}},
		{"#/writers", []string{"Who writes what", "setup/1", "configmaps", "without effect/s"}},
		{"#/object?resource=configmaps&namespace=default&name=evil", []string{"<b>", "data.a", hostile, "Updated by"}},
		{"#/webhooks", []string{"h/h.example.com", "validate", "configmaps"}},
		{"#/watches", []string{"configmaps", "a=b", "evil/1"}},
		{"#/levels", []string{"exempt", "catch-all", "workload-low", "Seats in use, by level", "global-default", "Refused a second, by level"}},
		{"#/storage", []string{"etcd-0", "configmaps", "revision", "By kind and namespace", "default", "The largest objects", "evil", "Stored, by kind"}},
		{"#/definitions", []string{"widgets.example.com", "v1"}},
		{"#/controllers", []string{"apiservices", "mean wait"}},
		{"#/map", []string{"kubectl/v1.36", "configmaps", "h/h.example.com"}},
	} {
		b.shows(view.hash, view.shows...)
		if said := b.text("#trouble"); said != "" {
			t.Errorf("%s: %s", view.hash, said)
		}
		b.picture(strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' {
				return c
			}
			return -1
		}, strings.SplitN(view.hash, "?", 2)[0]) + map[bool]string{true: "-refused"}[strings.Contains(view.hash, "code=")] + map[bool]string{true: "-groups"}[strings.Contains(view.hash, "by=")])
	}
	b.shows("#/storage", "The largest objects", "evil")
	got(b, chromedp.Evaluate[bool](`(document.querySelector('section[aria-label="In the database"]').scrollIntoView(), true)`))
	b.picture("space")
	b.shows("#/requests?verb=create&code=201&resource=configmaps", "create")
	b.click("#main tbody a")
	b.awaits("a request", "#main", "Its way", "etcd", "admission: webhook h/h.example.com", "audit ID", "Created", "Others like it", "that end with 201")
	b.picture("request")
	b.click("#main a.chip:nth-of-type(2)")
	b.awaits("others like it", "#main", "Code: 201", "Verb: create", "Resource: configmaps")
	b.click("#main button.chip") // takes the choice of the verb away
	b.lacks("#main .bar", "Verb: create")
	b.shows("#/requests?verb=list&resource=configmaps", "list")
	b.click("#main tbody a")
	b.awaits("a list", "#main", "Its way")
	if said := b.copies("Copy as kubectl"); !strings.HasPrefix(said, "kubectl get configmaps -n default") {
		t.Errorf("copied %q", said)
	}

	// Words are searched in what is shown; the address has them.
	b.shows("#/requests", "kubernetes-admin")
	got(b, chromedp.Evaluate[bool](`(n => (n.value = 'alice PATCH evil', n.dispatchEvent(new Event('input'))))(document.querySelector('#main input[type=search]'))`))
	b.awaits("a search of words", "#main", " of ", "configmaps default/evil")
	b.lacks("#main tbody", "create")
	if at := got(b, chromedp.Location()); !strings.Contains(at, "text=alice") {
		t.Errorf("the search is not in the address: %s", at)
	}

	// The charts show the hour that the server has kept; where the pointer is they show what was then.
	b.shows("#/overview", "Latency")
	b.awaits("the second chart", ".charts figure:nth-child(2) .legend", "now", "p99")
	got(b, chromedp.Evaluate[bool](`(e => { const r = e.getBoundingClientRect(); return e.dispatchEvent(new MouseEvent('mousemove', { clientX: r.left + r.width * .8, clientY: r.top + 20, movementX: 1, bubbles: true })); })(document.querySelector('.charts .u-over'))`))
	b.lacks(".charts figure:nth-child(2) .legend", "now")
	if then := b.text(".charts figure:nth-child(2) .legend"); !strings.Contains(then, ":") || strings.Contains(then, "now") {
		t.Errorf("under the pointer the second chart shows %q", then)
	}

	b.picture("hour")

	// Whom the overview names as a user has requests behind the link, also who is impersonated; a request that is forgotten says so.
	b.shows("#/overview", "alice")
	got(b, chromedp.Evaluate[bool](`([...document.querySelectorAll('#main a')].find(a => a.textContent === 'alice').click(), true)`))
	b.awaits("the requests of alice", "#main", "alice (by kubernetes-admin)")
	b.mu.Lock()
	b.forgotten = true
	b.mu.Unlock()
	b.shows("#/request?name=r1", "not kept any more")

	// By keyboard: a digit chooses a view, p pauses, f goes to the filter, Enter on a heading sorts.
	b.run(chromedp.KeyEvent("2"))
	b.awaits("the key 2", "h1", "Requests")
	b.run(chromedp.KeyEvent("p"))
	b.awaits("the key p", "#pause", "Go on")
	b.run(chromedp.KeyEvent("p"), chromedp.KeyEvent("f"))
	if focused := got(b, chromedp.Evaluate[string]("document.activeElement.name")); focused != "as" {
		t.Errorf("the key f goes to %q", focused)
	}
	// What is sent as a key comes as text too, also where the page has prevented that.
	got(b, chromedp.Evaluate[string]("document.activeElement.value = ''"))
	b.run(chromedp.KeyEvent("kubernetes-admin\r"))
	b.awaits("the filter", "#main", "kubernetes-admin")
	got(b, chromedp.Evaluate[bool]("(document.querySelector('#main th button').focus(), true)"))
	b.run(chromedp.KeyEvent("\r"))
	b.finds("#main th[aria-sort]")

	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		return err
	}))
	b.shows("#/overview", "requests a second")
	if background := got(b, chromedp.Evaluate[string]("getComputedStyle(document.body).backgroundColor")); background != "rgb(15, 19, 23)" {
		t.Errorf("where dark is wanted the page is %s", background)
	}
	b.picture("dark")

	// What others are called has become no element, and nothing of it has run.
	if strangers := got(b, chromedp.Evaluate[int]("document.querySelectorAll('img, iframe, object, body script, script:not([src])').length")); strangers != 0 {
		t.Errorf("%d elements came from texts", strangers)
	}
	b.clean()

	// The cookie is of no use to scripts, and elsewhere.
	if seen := got(b, chromedp.Evaluate[string]("document.cookie")); seen != "" {
		t.Errorf("scripts see the cookie %q", seen)
	}
	b.mu.Lock()
	b.refused = true
	b.mu.Unlock()
	for path, want := range map[string]int{"/api/v1/namespaces": 401, "/console/codes": 401, "/console/data/secrets": 404} {
		method := map[bool]string{true: "POST", false: "GET"}[path == "/console/codes"]
		code := got(b, chromedp.Evaluate[int](fmt.Sprintf("fetch(%q, {method: %q}).then(r => r.status)", path, method), chromedp.EvalAwaitPromise))
		if code != want {
			t.Errorf("with the cookie %s answers %d, want %d", path, code, want)
		}
	}

	// While the server is away the page says so, and what is shown is grey.
	got(b, chromedp.Evaluate[bool]("(window.fetch = (f => (...a) => window.away ? Promise.reject(new TypeError('Failed to fetch')) : f(...a))(window.fetch), window.away = true)"))
	b.awaits("a server that is away", "#trouble", "does not answer", "seconds old")
	b.finds("body.away")
	got(b, chromedp.Evaluate[bool]("(window.away = false, true)"))
	b.finds("body:not(.away)")

	// The link works once; whoever has signed out is out.
	b.click("#out")
	b.finds("#main textarea")
	b.open(link, "#main textarea")
	contains(t, b.text("#trouble"), "used before")
	b.picture("signin")
}

// TestConsoleWithoutRights signs somebody in who may nothing: the page shows what the API says, which is no.
func TestConsoleWithoutRights(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	b := browser(t, k.address)
	b.refused = true
	var answer struct{ Code string }
	raw, err := k.as("eve", "x", nil).RESTClient().Post().AbsPath("/console/codes").DoRaw(t.Context())
	must(t, err)
	must(t, json.Unmarshal(raw, &answer))
	b.open("https://"+k.address+"/console/", "#main textarea")
	b.open("https://"+k.address+"/console/#code="+answer.Code, "#nav a[aria-current]")
	for _, view := range []string{"overview", "requests", "events", "writers", "webhooks", "watches", "levels", "storage", "definitions", "controllers", "map", "planes", "object?resource=configmaps&namespace=default&name=kube-root-ca.crt"} {
		got(b, chromedp.Evaluate[string]("location.hash = '#/"+view+"'"))
		b.awaits(view, "#trouble", `User "eve" cannot`)
		if rows := b.text("#main tbody"); strings.TrimSpace(rows) != "" {
			t.Errorf("%s shows %q", view, rows)
		}
	}
	if code := got(b, chromedp.Evaluate[int]("fetch('/console/data/space').then(r => r.status)", chromedp.EvalAwaitPromise)); code != http.StatusForbidden {
		t.Errorf("the space of the database: %d", code)
	}
	b.clean()
}

// TestConsoleToken signs in with a token, by the form.
func TestConsoleToken(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	b := browser(t, k.address)
	b.refused = true
	token, _, code := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "create", "token", "default")
	if code != 0 {
		t.Fatal(token)
	}
	b.open("https://"+k.address+"/console/", "#main textarea")
	got(b, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector('#main textarea').value = %q", strings.TrimSpace(token))))
	b.click("#main form button")
	b.finds("#nav a[aria-current]")
	b.awaits("a service account", "#who", "system:serviceaccount:default:default")
	b.clean()
}

// TestConsoleIsOff checks that there is no console where nobody asked for one.
func TestConsoleIsOff(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--console=false")
	c := k.client().RESTClient()
	for _, path := range []string{"/console/", "/console/data/requests", "/console/codes"} {
		code := 0
		c.Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
		if code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, code)
		}
	}
}
