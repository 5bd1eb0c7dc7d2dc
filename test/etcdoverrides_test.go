package test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestEtcdServersOverrides has events and leases lie in another etcd, for kanzen and kube-apiserver beside it: each reads
// what the other writes, pages go on at the other server, and without that etcd the rest is served.
func TestEtcdServersOverrides(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	main := peer.Etcd(t)
	other, member := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	second := start(t, link(t, "etcd"), "--listen-client-urls="+other, "--advertise-client-urls="+other, "--listen-peer-urls="+member,
		"--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 60*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, other+"/health") })
	keys := func(etcd, prefix string) (n int) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: 5 * time.Second})
		must(t, err)
		defer c.Close()
		r, err := c.Get(ctx, "/registry/"+prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		must(t, err)
		return int(r.Count)
	}
	// The revisions of the second etcd are far ahead, so that none can be taken for one of the first.
	far, err := clientv3.New(clientv3.Config{Endpoints: []string{other}, DialTimeout: 5 * time.Second})
	must(t, err)
	defer far.Close()
	for range 3000 {
		_, err := far.Put(ctx, "elsewhere", "")
		must(t, err)
	}
	overrides := "--etcd-servers-overrides=/events#" + other + ",coordination.k8s.io/leases#" + other
	theirs := kubernetes.NewForConfigOrDie(peer.StartOn(t, main, overrides, "--disable-admission-plugins=ServiceAccount"))
	k := serve(t, filepath.Join(dir, "kanzen"), "--etcd-servers="+main, overrides, "--controllers=namespace", "--disable-admission-plugins=ServiceAccount")
	own := k.client()

	watching, err := own.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watching.Stop()
	event := func(name string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
	}
	for n := range 3 {
		_, err = own.CoreV1().Events("default").Create(ctx, event(fmt.Sprint("own-", n)), metav1.CreateOptions{})
		must(t, err)
		_, err = theirs.CoreV1().Events("default").Create(ctx, event(fmt.Sprint("their-", n)), metav1.CreateOptions{})
		must(t, err)
		_, err = own.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("own-", n)}}, metav1.CreateOptions{})
		must(t, err)
	}
	for n := range 6 {
		e := <-watching.ResultChan()
		if e.Object == nil || revision(t, e.Object.(*corev1.Event).ResourceVersion) < 3000 {
			t.Fatalf("event %d: %v", n, e)
		}
	}
	for prefix, want := range map[string][2]int{"events/default/": {0, 6}, "leases/": {0, keys(other, "leases/")}, "configmaps/default/own": {3, 0}} {
		if a, b := keys(main, prefix), keys(other, prefix); a != want[0] || b != want[1] || a+b == 0 {
			t.Errorf("%s: %d keys in the main etcd and %d in the other, want %v", prefix, a, b, want)
		}
	}

	// Lists are equal and consistent, each at the revision of its etcd; a page goes on at either server.
	list := func(c *kubernetes.Clientset, o metav1.ListOptions) *corev1.EventList {
		t.Helper()
		l, err := c.CoreV1().Events("default").List(ctx, o)
		must(t, err)
		return l
	}
	mine, their := list(own, metav1.ListOptions{}), list(theirs, metav1.ListOptions{})
	if len(mine.Items) != 6 || !equal(mine.Items, their.Items) || revision(t, mine.ResourceVersion) < 3000 {
		t.Errorf("kanzen lists %v\nkube-apiserver %v", mine, their)
	}
	configs, err := own.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	if revision(t, configs.ResourceVersion) > 3000 {
		t.Errorf("configmaps are at %s", configs.ResourceVersion)
	}
	for name, c := range map[string][2]*kubernetes.Clientset{"begun by kanzen": {own, theirs}, "begun by kube-apiserver": {theirs, own}} {
		page := list(c[0], metav1.ListOptions{Limit: 2})
		rest := list(c[1], metav1.ListOptions{Continue: page.Continue})
		if len(page.Items)+len(rest.Items) != 6 || rest.ResourceVersion != page.ResourceVersion {
			t.Errorf("%s: %d and %d events, at %s and %s", name, len(page.Items), len(rest.Items), page.ResourceVersion, rest.ResourceVersion)
		}
	}
	exact := list(own, metav1.ListOptions{ResourceVersion: mine.Items[0].ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if len(exact.Items) != 1 {
		t.Errorf("%d events at the revision of the first", len(exact.Items))
	}

	// A namespace is emptied in both.
	_, err = own.CoreV1().Namespaces().Create(ctx, namespace("gone"), metav1.CreateOptions{})
	must(t, err)
	e := event("e")
	e.InvolvedObject.Namespace = "gone"
	_, err = own.CoreV1().Events("gone").Create(ctx, e, metav1.CreateOptions{})
	must(t, err)
	must(t, own.CoreV1().Namespaces().Delete(ctx, "gone", metav1.DeleteOptions{}))
	within(t, 60*time.Second, "the namespace is gone", func(context.Context) bool { return keys(main, "namespaces/gone")+keys(other, "events/gone/") == 0 })

	// Health names the etcd that is away.
	paths := []string{"/healthz/etcd-override-0", "/livez/etcd-override-0", "/readyz/etcd-override-0", "/readyz/etcd-override-readiness-0", "/readyz/etcd", "/readyz/etcd-override-1", "/healthz/etcd-override-readiness-0"}
	health := func(c *kubernetes.Clientset) (out []string) {
		for _, path := range paths {
			code := 0
			c.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).StatusCode(&code)
			out = append(out, path+" "+strconv.Itoa(code))
		}
		return out
	}
	if is, want := fmt.Sprint(health(own)), fmt.Sprint(health(theirs)); is != want {
		t.Errorf("health\nis   %s\nwant %s", is, want)
	}
	second.end(syscall.SIGKILL)
	within(t, 60*time.Second, "health names the etcd", func(context.Context) bool {
		return strings.Contains(fmt.Sprint(health(own)), "/readyz/etcd-override-0 500") && strings.Contains(fmt.Sprint(health(own)), "/readyz/etcd 200")
	})
	_, err = own.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile"}}, metav1.CreateOptions{})
	must(t, err)
	l, err := own.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(l.Items) < 4 {
		t.Errorf("%d configmaps", len(l.Items))
	}
	brief, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := own.CoreV1().Events("default").List(brief, metav1.ListOptions{}); err == nil {
		t.Error("a consistent list without its etcd")
	}
	if l := list(own, metav1.ListOptions{ResourceVersion: "0"}); len(l.Items) != 6 {
		t.Errorf("%d events of any revision", len(l.Items))
	}
}

func revision(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	must(t, err)
	return n
}
