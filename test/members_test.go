package test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestOneToThree grows the embedded etcd of a server to a cluster of three while clients write: no write fails, and none
// takes a second. Then the first machine is lost, and a second server on what is left has everything.
func TestOneToThree(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	data := filepath.Join(dir, "one")
	before := serve(t, data, noRootCA) // it begins as everyone's does: without sockets
	must(t, createConfigMap(ctx, before.client(), "early"))
	if code, _ := before.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	url := func() string { return "https://127.0.0.1:" + freePort(t) }
	client, peer := url(), url()
	k := serve(t, data, noRootCA, "--etcd-listen-client-urls="+client, "--etcd-listen-peer-urls="+peer)
	t.Logf("started with sockets after %v", k.started.Round(time.Millisecond))
	at := []string{"--data-dir=" + data, "--etcd-servers=" + client}
	member := func(args ...string) string {
		t.Helper()
		out, errs, code := output(t, binaries.kanzen, append(append([]string{"member"}, args...), at...)...)
		if code != 0 {
			t.Fatalf("member %v: %s", args, errs)
		}
		return out
	}

	writer := writeAllTheTime(t, k.client())
	servers := []string{}
	for _, name := range []string{"two", "three"} {
		certificates := filepath.Join(dir, name+"-certificates")
		listenPeer, listenClient := url(), url()
		said := member("add", name, listenPeer, "--certificates-to="+certificates)
		start(t, binaries.kanzen, memberArgs(said, filepath.Join(dir, name), listenClient)...)
		member("promote", name)
		servers = append(servers, listenClient)
	}
	if list := member("list"); strings.Count(list, " true ") != 3 {
		t.Errorf("members:\n%s", list)
	}
	n, slowest := writer.end()
	t.Logf("%d writes while two members joined, the slowest took %v", n, slowest.Round(time.Millisecond))
	if n < 20 || slowest > time.Second {
		t.Errorf("%d writes, the slowest %v", n, slowest)
	}

	// Another server stands on the new members alone; then the first machine is lost.
	pki := filepath.Join(dir, "two-certificates")
	other := serve(t, filepath.Join(dir, "other"), noRootCA, "--etcd-servers="+strings.Join(servers, ","),
		"--etcd-cafile="+pki+"/ca.crt", "--etcd-certfile="+pki+"/client.crt", "--etcd-keyfile="+pki+"/client.key")
	must(t, createConfigMap(ctx, k.client(), "last"))
	k.kill()
	c := other.client()
	within(t, 60*time.Second, "the two that are left take writes", func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return createConfigMap(ctx, c, "after") == nil
	})
	list, err := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	var names []string
	for _, m := range list.Items {
		names = append(names, m.Name)
	}
	for _, want := range []string{"early", "last", "after"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is lost", want)
		}
	}
	if len(names) < n {
		t.Errorf("%d objects, %d were written", len(names), n)
	}

	// The first machine's data comes back as a member, with its sockets only.
	_, errs, code := output(t, binaries.kanzen, "serve", "--data-dir="+data, "--secure-port=0")
	if code == 0 || !strings.Contains(errs, "belongs to an etcd cluster of 3 members") {
		t.Errorf("without sockets it says %q, exit code %d", errs, code)
	}
	k = serve(t, data, noRootCA, "--etcd-listen-client-urls="+client, "--etcd-listen-peer-urls="+peer)
	if _, err := k.client().CoreV1().ConfigMaps("default").Get(ctx, "after", metav1.GetOptions{}); err != nil {
		t.Errorf("it has not followed: %v", err)
	}
}

// memberArgs are the arguments of the command that `kanzen member add` printed, for this machine.
func memberArgs(said, dir, client string) []string {
	_, command, _ := strings.Cut(said, "kanzen etcd")
	command, _, _ = strings.Cut(command, "\n\n")
	args := strings.Fields(strings.NewReplacer("\\\n", " ", "'", "", "etcd-data", dir, "https://127.0.0.1:2379", client).Replace(command))
	return append([]string{"etcd"}, args...)
}

func createConfigMap(ctx context.Context, c kubernetes.Interface, name string) error {
	_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// writing counts writes and keeps the slowest.
type writing struct {
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	n       atomic.Int64
	slowest time.Duration
}

// writeAllTheTime creates objects one after another; none may fail.
func writeAllTheTime(t *testing.T, c kubernetes.Interface) *writing {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writing{cancel: cancel}
	w.wait.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			if err := createConfigMap(context.WithoutCancel(ctx), c, fmt.Sprintf("w%d", n)); err != nil {
				t.Errorf("write %d: %v", n, err)
				return
			}
			w.slowest = max(w.slowest, time.Since(began))
			w.n.Add(1)
		}
	})
	return w
}

func (w *writing) end() (n int, slowest time.Duration) {
	w.cancel()
	w.wait.Wait()
	return int(w.n.Load()), w.slowest
}
