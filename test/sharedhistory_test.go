package test

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSharedHistory: a server that joins others on an etcd knows what they remember, after etcd has forgotten it, and what one of them is
// told to forget is forgotten by all.
func TestSharedHistory(t *testing.T) {
	t.Parallel()
	etcd, ctx := etcdServer(t), t.Context()
	args := []string{"--etcd-servers=" + etcd, "--controllers=", "--etcd-compaction-interval=0"}
	one := serve(t, filepath.Join(t.TempDir(), "one"), args...)
	settings := one.client().CoreV1().ConfigMaps("default")
	history := func(k *kanzen) string {
		t.Helper()
		stdout, stderr, _ := output(t, binaries.kanzen, "history", "configmap/settings", "--data-dir", k.dir)
		return stdout + stderr
	}
	const red = `data.colour: "red" → "blue"`
	var changed *corev1.ConfigMap
	for n := 0; ; n++ { // the history begins shortly after the server is ready
		_, err := settings.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "red"}}, metav1.CreateOptions{})
		must(t, err)
		changed, err = settings.Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"colour":"blue"}}`), metav1.PatchOptions{})
		must(t, err)
		if said := history(one); strings.Contains(said, red) && strings.Contains(said, "created by") {
			break
		} else if n == 100 {
			t.Fatal(said)
		}
		must(t, settings.Delete(ctx, "settings", metav1.DeleteOptions{}))
	}
	rev, err := strconv.ParseInt(changed.ResourceVersion, 10, 64)
	must(t, err)

	e, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: 5 * time.Second})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	var head struct{ Reached int64 }
	for end := time.Now().Add(2 * time.Minute); head.Reached < rev; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d is in etcd", head.Reached, rev)
		}
		got, err := e.Get(ctx, "/kanzen/history/registry/head")
		must(t, err)
		if len(got.Kvs) == 1 {
			must(t, json.Unmarshal(got.Kvs[0].Value, &head))
		}
	}
	_, err = e.Compact(ctx, head.Reached)
	must(t, err)

	two := serve(t, filepath.Join(t.TempDir(), "two"), args...)
	if a, b := history(one), history(two); a != b || !strings.Contains(b, red) {
		t.Errorf("one says\n%s\nthe other\n%s", a, b)
	}
	if stdout, stderr, code := output(t, binaries.kanzen, "forget", "configmap/settings", "--data-dir", two.dir); code != 0 {
		t.Fatal(stdout, stderr)
	}
	for _, k := range []*kanzen{two, one} {
		for end := time.Now().Add(30 * time.Second); strings.Contains(history(k), "red"); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s remembers\n%s", k.dir, history(k))
			}
		}
	}
}
