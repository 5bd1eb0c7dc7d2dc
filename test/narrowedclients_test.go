package test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kanzen-io/kanzen/examples/narrowed"
)

// narrowedTeams has configmaps in four namespaces, and Ann, who may read those of the first. It returns how to give her another, or take it.
func narrowedTeams(t *testing.T, admin *kubernetes.Clientset) (bind, unbind func(ns string)) {
	t.Helper()
	ctx := t.Context()
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}}}, metav1.CreateOptions{})
	must(t, err)
	for n := range 4 {
		ns := fmt.Sprint("n", n)
		_, err := admin.CoreV1().Namespaces().Create(ctx, namespace(ns), metav1.CreateOptions{})
		must(t, err)
		for k := range 3 {
			_, err := admin.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", k)}}, metav1.CreateOptions{})
			must(t, err)
		}
	}
	bind = func(ns string) {
		_, err := admin.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ann"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}}}, metav1.CreateOptions{})
		must(t, err)
	}
	unbind = func(ns string) { must(t, admin.RbacV1().RoleBindings(ns).Delete(ctx, "ann", metav1.DeleteOptions{})) }
	bind("n0")
	return bind, unbind
}

// narrowedConfig is a user's config with parameters on every read; empty: the administrator's.
func narrowedConfig(k *kanzen, who string, query url.Values) *rest.Config {
	config := rest.CopyConfig(k.config())
	config.Impersonate.UserName = who
	config.QPS = -1
	config.Wrap(narrowed.Reads(query))
	return config
}

// TestNarrowedCache has controller-runtime's cache follow what its user may see, and some namespaces.
func TestNarrowedCache(t *testing.T) {
	k := serve(t, t.TempDir(), noRootCA)
	admin := k.client()
	bind, unbind := narrowedTeams(t, admin)
	follow := func(who string, query url.Values) (cached func() []string) {
		c, err := cache.New(narrowedConfig(k, who, query), cache.Options{})
		must(t, err)
		_, err = c.GetInformer(t.Context(), &corev1.ConfigMap{})
		must(t, err)
		go func() { _ = c.Start(t.Context()) }()
		if !c.WaitForCacheSync(t.Context()) {
			t.Fatal("the cache does not come about")
		}
		return func() []string {
			var list corev1.ConfigMapList
			must(t, c.List(t.Context(), &list))
			var keys []string
			for _, m := range list.Items {
				keys = append(keys, client.ObjectKeyFromObject(&m).String()+" "+m.Data["n"])
			}
			slices.Sort(keys)
			return keys
		}
	}
	visible, named := follow("ann", url.Values{"visible": {"true"}}), follow("", url.Values{"namespaces": {"n1,n3"}})
	values := map[string]string{}
	want := func(namespaces ...string) []string {
		keys := []string{}
		for _, ns := range namespaces {
			for k := range 3 {
				key := fmt.Sprintf("%s/c%d", ns, k)
				keys = append(keys, key+" "+values[key])
			}
		}
		return keys
	}
	is := func(what string, cached func() []string, want []string) {
		t.Helper()
		within(t, 20*time.Second, what+": the cache is "+fmt.Sprint(want), func(context.Context) bool { return slices.Equal(cached(), want) })
	}
	is("at first", visible, want("n0"))
	is("at first", named, want("n1", "n3"))
	for n := range 20 {
		rights := []string{"n0"}
		if n%2 == 0 {
			bind("n2")
			rights = append(rights, "n2")
		} else {
			unbind("n2")
		}
		ns, name := fmt.Sprint("n", n%4), fmt.Sprint("c", n%3)
		values[ns+"/"+name] = fmt.Sprint(n)
		_, err := admin.CoreV1().ConfigMaps(ns).Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": fmt.Sprint(n)}}, metav1.UpdateOptions{})
		must(t, err)
		is(fmt.Sprint("change ", n), visible, want(rights...))
		is(fmt.Sprint("change ", n), named, want("n1", "n3"))
	}
}

// TestNarrowedKubectl has kubectl, as it is, list and watch through a proxy whose transport sets the parameters.
func TestNarrowedKubectl(t *testing.T) {
	k := serve(t, t.TempDir(), noRootCA)
	bind, _ := narrowedTeams(t, k.client())
	watches := make(chan struct{}, 1) // one for each that has begun
	through := func(who string, query url.Values) (kubectl func(args ...string) *exec.Cmd) {
		transport, err := rest.TransportFor(narrowedConfig(k, who, query))
		must(t, err)
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(&url.URL{Scheme: "https", Host: k.address})
				r.Out.Header.Del("Accept-Encoding")
			},
			ModifyResponse: func(resp *http.Response) error {
				if resp.Request.URL.Query().Get("watch") != "" {
					watches <- struct{}{}
				}
				return nil
			},
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // of watches that end with the test
		})
		t.Cleanup(proxy.Close)
		return func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), binaries.kubectl, append([]string{"--server", proxy.URL, "--cache-dir", t.TempDir()}, args...)...)
			cmd.Env = append(cmd.Environ(), "KUBECONFIG=/dev/null", "HOME="+t.TempDir())
			return cmd
		}
	}
	rows := func(out []byte) map[string]bool {
		found := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], "c") {
				found[f[0]] = true
			}
		}
		return found
	}
	ann, admin := through("ann", url.Values{"visible": {"true"}}), through("", url.Values{"namespaces": {"n1,n3"}})
	for _, q := range []struct {
		kubectl func(...string) *exec.Cmd
		want    map[string]bool
	}{
		{ann, map[string]bool{"n0": true}},
		{admin, map[string]bool{"n1": true, "n3": true}},
	} {
		for _, args := range [][]string{{}, {"-o", "wide"}, {"--chunk-size=2"}, {"--sort-by=metadata.name"}, {"-o", "custom-columns=NS:.metadata.namespace,NAME:.metadata.name"}} {
			out, err := q.kubectl(append([]string{"get", "configmaps", "--all-namespaces", "--no-headers"}, args...)...).CombinedOutput()
			if err != nil || !maps.Equal(rows(out), q.want) {
				t.Errorf("kubectl get %q: %v\n%s", args, err, out)
			}
		}
	}
	var seen lockedBuffer
	watch := ann("get", "configmaps", "--all-namespaces", "--no-headers", "--watch")
	watch.Stdout, watch.Stderr = &seen, &seen
	must(t, watch.Start())
	t.Cleanup(func() { _ = watch.Process.Kill(); _ = watch.Wait() })
	has := func(want map[string]bool) func(context.Context) bool {
		return func(context.Context) bool { return maps.Equal(rows([]byte(seen.String())), want) }
	}
	within(t, time.Minute, "kubectl watches n0", has(map[string]bool{"n0": true}))
	// A watch from a revision before a change of rights is refused, so that informers list again; kubectl would end.
	<-watches
	bind("n2")
	within(t, time.Minute, "kubectl sees n2", has(map[string]bool{"n0": true, "n2": true}))
}
