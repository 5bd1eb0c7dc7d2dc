package test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestMigrateFromKine fills kine through kube-apiserver with objects of every kind, and brings them to kanzen while both run. kanzen serves all objects
// equal, and a watch from a resourceVersion that kube-apiserver gave has the events that it has there.
func TestMigrateFromKine(t *testing.T) {
	t.Parallel()
	address, endpoint := peer.Kine(t)
	from := &takeoverServer{t: t, config: peer.StartOn(t, address, "--disable-admission-plugins=ServiceAccount")}
	bases := goldenBases(t)
	from.fill(bases)
	at := someHistory(t, kubernetes.NewForConfigOrDie(from.config))
	filled := from.settled()
	events := watched(t, from.config, at)
	for _, engine := range []string{"pebble", "etcd"} {
		t.Run(engine, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			out, said, code := output(t, binaries.kanzen, "migrate", "--from", "kine:"+endpoint, "--to", engine, "--data-dir", dir)
			if code != 0 || !strings.Contains(out, " now uses "+engine) {
				t.Fatal(out, said)
			}
			t.Log(out)
			if out, said, code := output(t, binaries.kanzen, "migrate", "--from", "kine:"+endpoint, "--to", engine, "--data-dir", dir); code != 1 || !strings.Contains(said, "is there already") {
				t.Error("once more:", out, said)
			}
			k := serve(t, dir, "--controllers=", "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24", "--flight-recorder-memory=0", "--extensions=")
			defer k.end(syscall.SIGTERM)
			s := &takeoverServer{t: t, config: k.config()}
			s.serves(filled)
			if got := watched(t, s.config, at); strings.Join(got, "\n") != strings.Join(events, "\n") {
				t.Errorf("the watch from %s has %q, not %q", at, got, events)
			}
			if kubectl, err := exec.LookPath("kubectl"); err == nil {
				if out, said, code := output(t, kubectl, "--kubeconfig", k.kubeconfig(), "get", "all", "-A"); code != 0 || !strings.Contains(out, "deployment.apps/") {
					t.Error(out, said)
				}
			}
		})
	}
}

const historySize = 30

// someHistory changes ConfigMaps, and returns the resourceVersion before.
func someHistory(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	maps := c.CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for n := range historySize / 3 {
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("h%02d", n)}}, metav1.CreateOptions{})
		must(t, err)
		m.Data = map[string]string{"n": strings.Repeat("x", 1000*n)}
		_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
		must(t, err)
		must(t, maps.Delete(t.Context(), m.Name, metav1.DeleteOptions{}))
	}
	return list.ResourceVersion
}

// watched are the events of ConfigMaps after a resourceVersion.
func watched(t *testing.T, c *rest.Config, at string) (events []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w, err := kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: at})
	must(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || e.Type == watch.Error {
			t.Fatalf("%+v", e)
		}
		if events = append(events, fmt.Sprintf("%s %s at %s: %d", e.Type, m.Name, m.ResourceVersion, len(m.Data["n"]))); len(events) == historySize {
			break
		}
	}
	return events
}
