package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// hostileName is a name that the API takes.
const hostileName = `<img src=x onerror=alert(1)>"'&`

// shop makes objects to look at: a workload with its pods, an event, a secret, and a role with a hostile name.
func shop(t *testing.T, c *kubernetes.Clientset) {
	t.Helper()
	ctx := t.Context()
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	must(t, err)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}}}
	deployment, err := c.AppsV1().Deployments("shop").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{FieldManager: "first<b>"})
	must(t, err)
	_, err = c.AppsV1().Deployments("shop").Patch(ctx, "web", "application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "second"})
	must(t, err)
	set, err := c.AppsV1().ReplicaSets("shop").Create(ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-7d9", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	pod, err := c.CoreV1().Pods("shop").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-7d9-a", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}, Spec: template.Spec}, metav1.CreateOptions{})
	must(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: hostile,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-3 * time.Hour))}}}
	_, err = c.CoreV1().Pods("shop").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	must(t, err)
	_, err = c.CoreV1().Events("shop").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod.Name, UID: pod.UID},
		Type: "Warning", Reason: "BackOff", Message: "event " + hostile, LastTimestamp: metav1.Now(), Count: 4}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": "hunter2hunter2"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: hostileName}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{hostile}}}}, metav1.CreateOptions{})
	must(t, err)
}

// remembers waits until the server's history has begun: what was made before that has no beginning there.
func remembers(t *testing.T, c *kubernetes.Clientset) {
	t.Helper()
	for n := 0; n < 200; n++ {
		name := fmt.Sprintf("begun-%d", n)
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
		time.Sleep(100 * time.Millisecond)
		raw, err := c.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/configmaps/"+name).Param("revisions", "true").DoRaw(t.Context())
		if err == nil && strings.Contains(string(raw), `"Created"`) {
			return
		}
	}
	t.Fatal("the history does not begin")
}

// press sends a key as the page sees it.
func (b *tab) press(key, modifiers string) {
	b.t.Helper()
	got(b, chromedp.Evaluate[bool](fmt.Sprintf("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: %q, bubbles: true, cancelable: true %s })) || true", key, modifiers)))
}

// lacks waits until an element does not show a text any more.
func (b *tab) lacks(selector, text string) {
	b.t.Helper()
	for end := time.Now().Add(browserTime); strings.Contains(b.text(selector), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s still shows %q:\n%s", selector, text, b.text(selector))
		}
	}
}

// copies returns what a button copies.
func (b *tab) copies(label string) string {
	b.t.Helper()
	return got(b, chromedp.Evaluate[string](fmt.Sprintf(`(navigator.clipboard.writeText = async text => { window.copied = text; }, [...document.querySelectorAll('#main button')].find(n => n.textContent === %q).click(), window.copied)`, label)))
}

// TestConsoleExplorer looks at kinds, lists and objects, and finds them by search.
func TestConsoleExplorer(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	c := k.client()
	remembers(t, c)
	shop(t, c)
	b := browser(t, k.address)
	b.open(k.consoleLink(t), "#nav a[aria-current]")

	b.shows("#/explore", "core", "ConfigMap", "apps", "Deployment", "rbac.authorization.k8s.io")
	b.picture("explore")
	b.shows("#/explore?resource=pods", "Namespace", "shop", "web-7d9-a", "0/1", "Running", "1 shown")
	b.picture("list")
	if said := b.copies("Copy as kubectl"); said != "kubectl get pods --all-namespaces" {
		t.Errorf("copied %q", said)
	}
	// The list is live, and a filter narrows what is shown.
	_, err := c.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	must(t, err)
	b.awaits("a new pod", "#main", "late", "2 shown")
	got(b, chromedp.Evaluate[bool](`(n => (n.value = 'LATE', n.dispatchEvent(new Event('input'))))(document.querySelector('input[name=filter]'))`))
	b.awaits("a filter", "#main", "1 of 2 shown")
	must(t, c.CoreV1().Pods("shop").Delete(t.Context(), "late", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	b.awaits("a deleted pod", "#main", "0 of 1 shown")
	b.shows("#/explore?resource=nothings", "no such kind")
	b.shows("#/explore?resource=clusterroles&group=rbac.authorization.k8s.io", hostileName)
	got(b, chromedp.Evaluate[bool](fmt.Sprintf(`([...document.querySelectorAll('#main a')].find(a => a.textContent === %q).click(), true)`, hostileName)))
	b.awaits("a role", "#main", "kind: ClusterRole", "onerror=alert(1)")
	if said := b.copies("Copy as kubectl"); said != `kubectl get 'clusterroles.rbac.authorization.k8s.io/<img src=x onerror=alert(1)>"'\''&' -o yaml` {
		t.Errorf("copied %q", said)
	}

	// An object: its state, who wrote it, its relatives, its events, and what was done to it.
	b.shows("#/object?resource=pods&namespace=shop&name=web-7d9-a", "ContainersNotReady", "3h", hostile, "Its phase is Running", "image: nginx:1.27", "Last written by", "Deployment web", "ReplicaSet web-7d9", "BackOff", "event "+hostile, "Created by kubernetes-admin")
	b.picture("pod")
	b.shows("#/object?resource=deployments&group=apps&namespace=shop&name=web", "first<b>", "second, kubernetes-admin", "replicas: 3", "ReplicaSet web-7d9", "Pod web-7d9-a", "spec.replicas")
	b.picture("object")
	b.shows("#/events?namespace=shop&type=Warning", "BackOff", "Pod shop/web-7d9-a", "event "+hostile, "1 of 1 shown")
	b.picture("events")
	b.click("#main tbody a")
	b.awaits("the object of an event", "h1", "Object pods shop/web-7d9-a")
	b.shows("#/object?resource=deployments&group=apps&namespace=shop&name=web", "spec.replicas")
	b.click("section[aria-label=Changes] li:last-child a")
	b.awaits("as it was", "#main", "as it was", "replicas: 1", "fields have changed", "spec.replicas")

	// Values of secrets are shown to who asks for them.
	b.shows("#/object?resource=secrets&namespace=shop&name=db", "(hidden, 20 characters)")
	if shown := got(b, chromedp.Evaluate[string]("document.documentElement.outerHTML")); strings.Contains(shown, "aHVudGVy") || strings.Contains(shown, "hunter2") {
		t.Error("the value of a secret is in the page before anybody has asked for it")
	}
	b.click("section[aria-label=YAML] button[aria-pressed]")
	b.awaits("values", "#main", "aHVudGVyMmh1bnRlcjI")
	b.mu.Lock()
	b.forgotten = true
	b.mu.Unlock()
	b.shows("#/object?resource=pods&namespace=shop&name=late", "does not exist", "Deleted")

	b.search()
	b.brush()
	if strangers := got(b, chromedp.Evaluate[int]("document.querySelectorAll('img, iframe, object, body script, script:not([src])').length")); strangers != 0 {
		t.Errorf("%d elements came from texts", strangers)
	}
	b.clean()
}

// slash opens the search. What is sent as a key comes as text too, also where the page has prevented that:
// it is taken out as somebody would, so that the page draws what an empty search finds.
func (b *tab) slash() {
	b.t.Helper()
	b.run(chromedp.KeyEvent("/"))
	b.finds("dialog.search[open]")
	got(b, chromedp.Evaluate[bool](`(n => (n.value = '', n.dispatchEvent(new Event('input'))))(document.querySelector('dialog.search input'))`))
}

// search finds things by keyboard alone.
func (b *tab) search() {
	b.t.Helper()
	b.shows("#/overview", "requests a second")
	b.press("k", ", ctrlKey: true")
	b.finds("dialog.search[open]")
	b.run(chromedp.KeyEvent("web"))
	b.awaits("search", "dialog.search", "Webhooks", "web-7d9-a", "shop", "Searched: pages, kinds", "pods")
	b.picture("search")
	b.run(chromedp.KeyEvent("-7d9"))
	b.awaits("search of an object", "#results li:first-child", "Pod", "web-7d9-a")
	b.press("Escape", "")
	b.run(chromedp.KeyEvent("\x1b"))
	b.finds("dialog.search:not([open]):not(:focus-within)")
	b.slash()
	b.run(chromedp.KeyEvent("rs/web"))
	b.awaits("search in a kind", "#results", "replicasets.apps", "web-7d9")
	b.press("ArrowDown", "")
	b.finds("#results li:nth-child(2)[aria-selected=true]")
	b.press("Enter", "")
	b.awaits("what was found", "h1", "Object replicasets.apps shop/web-7d9")
	b.run(chromedp.KeyEvent("?"))
	b.awaits("the keys", "dialog.keys[open]", "Ctrl K", "Requests", "Pause")
	got(b, chromedp.Evaluate[bool]("(document.querySelector('dialog.keys').close(), true)"))
}

// brush drags over a chart, which narrows the requests to its range.
func (b *tab) brush() {
	b.t.Helper()
	b.shows("#/requests", "Latency", "create")
	b.finds(".charts canvas")
	// There is nothing to drag over in a chart of one value: the next is there after five seconds.
	for end := time.Now().Add(browserTime); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if got(b, chromedp.Evaluate[bool](`(e => { const r = e.getBoundingClientRect(), at = (type, x) => e.dispatchEvent(new MouseEvent(type, { clientX: r.left + r.width * x, clientY: r.top + 20, movementX: 1, bubbles: true, button: 0 }));
			at('mousedown', .15); at('mousemove', .5); at('mousemove', .99); at('mouseup', .99); return location.hash.includes('from='); })(document.querySelector('.charts .u-over'))`)) {
			break
		}
	}
	b.awaits("a range of time", "#main", "requests began from", "Of any time", "create")
	at, err := url.Parse(strings.Replace(got(b, chromedp.Location()), "#/requests", "", 1))
	must(b.t, err)
	if from, err := time.Parse(time.RFC3339, at.Query().Get("from")); err != nil || time.Since(from) > time.Hour {
		b.t.Errorf("the range begins at %s: %v", from, err)
	}
	b.finds(".charts .brush:not([hidden])")
	b.picture("brush")
	b.shows("#/requests?from=2001-01-01T00:00:00Z&to=2001-01-01T00:01:00Z", "0 requests began")
	b.shows("#/requests?from=yesterday", "yesterday is no time")
}

// TestConsoleFewRights signs in somebody who may read some configmaps and nothing else: these are shown, and of the rest that it is not told.
func TestConsoleFewRights(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	c := k.client()
	shop(t, c)
	for _, ns := range []string{"shop", "default"} {
		_, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "in-" + ns}}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err := c.RbacV1().Roles("shop").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.RbacV1().RoleBindings("shop").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"}}}, metav1.CreateOptions{})
	must(t, err)
	b := browser(t, k.address)
	b.refused = true
	var answer struct{ Code string }
	raw, err := k.as("eve", "x", nil).RESTClient().Post().AbsPath("/console/codes").DoRaw(t.Context())
	must(t, err)
	must(t, json.Unmarshal(raw, &answer))
	b.open("https://"+k.address+"/console/#code="+answer.Code, "#nav a[aria-current]")

	b.shows("#/explore", "ConfigMap")
	b.shows("#/explore?resource=configmaps", "You see only those that you may list", `User "eve" cannot list`, "in-shop")
	if all := b.text("#main"); strings.Contains(all, "in-default") {
		t.Errorf("eve sees a configmap that she may not: %s", all)
	}
	_, err = c.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
	must(t, err)
	b.awaits("a watch of what may be seen", "#main", "later")
	b.shows("#/explore?resource=secrets", `User "eve" cannot list`, "There are none.", "0 shown")
	b.shows("#/object?resource=configmaps&namespace=shop&name=in-shop", "kind: ConfigMap", `User "eve" cannot create resource "objecthistories"`)
	b.shows("#/object?resource=secrets&namespace=shop&name=db", `User "eve" cannot get`)
	if all := b.text("#main"); strings.Contains(all, "password") {
		t.Errorf("eve sees a secret: %s", all)
	}
	b.slash()
	b.run(chromedp.KeyEvent("in-"))
	b.awaits("search of what may be seen", "dialog.search", "in-shop", "shop")
	if all := b.text("dialog.search"); strings.Contains(all, "in-default") {
		t.Errorf("eve finds a configmap that she may not see: %s", all)
	}
	b.clean()
}

// TestConsolePlanes looks at the page of planes, which is offered only where there are some.
func TestConsolePlanes(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--planes")
	b := browser(t, k.address)
	for _, name := range []string{"red", "blue"} {
		path := "/apis/planes.kanzen.io/v1/planes"
		must(t, k.client().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(fmt.Appendf(nil, `{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":%q}}`, name)).Do(t.Context()).Error())
	}
	b.open(k.consoleLink(t), "#nav a[aria-current]")
	b.finds("#nav a[data-view=planes]:not([hidden])")
	b.shows("#/planes", "red", "blue", "requests/s", "2 of 2 shown")
	got(b, chromedp.Evaluate[bool](`(n => (n.value = 'bl', n.dispatchEvent(new Event('input'))))(document.querySelector('#main input'))`))
	b.awaits("a filter", "#main", "1 of 2 shown")
	b.lacks("#main tbody", "red")
	b.shows("#/planes?name=red", "Plane red", "wait for a seat", "The limit of watches")
	if said := b.copies("Copy as kanzen kubeconfig"); said != "kanzen kubeconfig --plane red" {
		t.Errorf("copied %q", said)
	}
	b.clean()
}

// axe returns the checks of accessibility of axe-core, from the registry of npm, or skips the test.
func axe(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm on this machine to get axe-core with")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "axe-core@4.14.1")
	if said, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm does not get axe-core: %v\n%s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	must(t, err)
	return string(text)
}

// TestConsoleAccessible has axe-core look at each page, dark and light, and checks that none needs sideways scrolling on a phone.
func TestConsoleAccessible(t *testing.T) {
	t.Parallel()
	checks := axe(t)
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--planes")
	c := k.client()
	remembers(t, c) // also an object as it was is looked at
	shop(t, c)
	must(t, c.RESTClient().Post().AbsPath("/apis/planes.kanzen.io/v1/planes").SetHeader("Content-Type", "application/json").Body([]byte(`{"apiVersion":"planes.kanzen.io/v1","kind":"Plane","metadata":{"name":"red"}}`)).Do(t.Context()).Error())
	pod, err := c.CoreV1().Pods("shop").Get(t.Context(), "web-7d9-a", metav1.GetOptions{})
	must(t, err)
	made := k.requestOf(t, "verb=create,resource=pods,name="+pod.Name)
	b := browser(t, k.address)
	b.open(k.consoleLink(t), "#nav a[aria-current]")
	got(b, chromedp.Evaluate[bool](checks+"; true"))
	views := map[string]string{"overview": "requests a second", "requests": "create", "explore": "ConfigMap", "explore?resource=pods": "web-7d9-a", "object?resource=pods&namespace=shop&name=web-7d9-a": "What was done to it", "requests?by=user": "time in all", "events": "BackOff", "writers": "Who writes what", "webhooks": "Webhooks", "watches": "Watches",
		"levels": "catch-all", "storage": "revision", "definitions": "planes", "controllers": "apiservices", "map": "As a table", "planes": "red", "planes?name=red": "Refused since",
		"request?name=" + made: "Its way", "requests?since=1h&slower=10ms": "Time: last 1h", "object?resource=pods&namespace=shop&name=web-7d9-a&at=" + pod.ResourceVersion: "as it was",
		"object?group=apps&resource=deployments&namespace=shop&name=web": "What is wrong with it"}
	for _, scheme := range []string{"light", "dark"} {
		b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
		for hash, text := range views {
			b.shows("#/"+hash, text)
			b.accessible(scheme + " " + hash)
		}
		b.slash()
		b.finds("#results li")
		b.accessible(scheme + " search")
		got(b, chromedp.Evaluate[bool]("(document.querySelector('dialog.search').close(), true)"))
		b.finds("dialog.search:not(:focus-within)")
		b.press("?", "")
		b.finds("dialog.keys[open]")
		b.accessible(scheme + " keys")
		got(b, chromedp.Evaluate[bool]("(document.querySelector('dialog.keys').close(), true)"))
		b.finds("dialog.keys:not(:focus-within)")
	}
	// The checks find what is wrong.
	got(b, chromedp.Evaluate[bool]("(document.querySelector('#main').insertAdjacentHTML('beforeend', '<button id=nameless></button>'), true)"))
	if found := b.violations(); !strings.Contains(found, "button-name") {
		t.Errorf("a button without a name is no violation: %s", found)
	}
	got(b, chromedp.Evaluate[bool]("(document.querySelector('#nameless').remove(), true)"))
	b.run(chromedp.EmulateViewport(390, 844))
	for hash, text := range views {
		b.shows("#/"+hash, text)
		if over := got(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - document.documentElement.clientWidth")); over > 0 {
			t.Errorf("%s is %d pixels too wide for a phone", hash, over)
		}
	}
	b.clean()

	// Who has not signed in, too.
	b.refused = true
	b.click("#out")
	b.finds("#main textarea")
	if over := got(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - document.documentElement.clientWidth")); over > 0 {
		t.Errorf("the form to sign in is %d pixels too wide for a phone", over)
	}
	b.accessible("signing in")
}

// requestOf returns the name of a request that a field selector chooses.
func (k *kanzen) requestOf(t *testing.T, selector string) string {
	t.Helper()
	var list struct {
		Items []metav1.PartialObjectMetadata
	}
	raw, err := k.client().RESTClient().Get().AbsPath(recorderAPI+"/requests").Param("limit", "1").Param("fieldSelector", selector).DoRaw(t.Context())
	must(t, err)
	must(t, json.Unmarshal(raw, &list))
	if len(list.Items) == 0 {
		t.Fatalf("no request has %s", selector)
	}
	return list.Items[0].Name
}

// TestConsoleByKeyboard goes from the top of a page into its content, and opens an object, without a mouse: what has the focus shows it.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	shop(t, k.client())
	b := browser(t, k.address)
	b.open(k.consoleLink(t), "#nav a[aria-current]")
	b.shows("#/explore?resource=pods", "web-7d9-a")
	focused := func() string {
		return got(b, chromedp.Evaluate[string]("document.activeElement.textContent.trim()"))
	}
	b.run(chromedp.Reload()) // some browsers go on from what had the focus last
	b.awaits("the page that was loaded anew", "#main", "web-7d9-a")
	b.run(chromedp.KeyEvent("\t"))
	if at := focused(); at != "Skip to the content" {
		t.Fatalf("the first stop is %q", at)
	}
	b.run(chromedp.KeyEvent("\r"))
	b.finds("#main:focus")
	seen := map[string]bool{}
	for range 30 {
		b.run(chromedp.KeyEvent("\t"))
		at := focused()
		seen[at] = true
		if at == "web-7d9-a" {
			break
		}
		if outline := got(b, chromedp.Evaluate[string]("getComputedStyle(document.activeElement).outlineStyle")); outline == "none" {
			t.Errorf("%q has the focus and does not show it", at)
		}
	}
	for _, stop := range []string{"Copy as kubectl", "Show", "Name", "web-7d9-a"} {
		if !seen[stop] {
			t.Errorf("the keyboard does not come to %q: %v", stop, seen)
		}
	}
	b.run(chromedp.KeyEvent("\r"))
	b.awaits("the object", "h1", "Object pods shop/web-7d9-a")
	b.clean()
}

func (b *tab) violations() string {
	b.t.Helper()
	return got(b, chromedp.Evaluate[string](`axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 200)).join('; ')).join('\n'))`, chromedp.EvalAwaitPromise))
}

func (b *tab) accessible(what string) {
	b.t.Helper()
	if found := b.violations(); found != "" {
		b.t.Errorf("%s:\n%s", what, found)
	}
}
