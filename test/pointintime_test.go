package test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// TestPointInTime restores a server to a moment that etcd's own history does not reach back to, while it is written to; and looks at the space
// that it takes, while it runs, when it is stopped, and in the snapshot.
func TestPointInTime(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"etcd", "pebble"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			keys, data := filepath.Join(dir, "encryption.yaml"), filepath.Join(dir, "data")
			must(t, os.WriteFile(keys, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [{name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}
`), 0o600))
			encrypted, at := "--encryption-provider-config="+keys, "--data-dir="+data
			k := serve(t, data, "--engine="+engine, encrypted, "--etcd-compaction-interval=1s")
			populate(t, k)
			ctx, c := t.Context(), k.client()
			want, err := c.CoreV1().Secrets("shop").Get(ctx, "key", metav1.GetOptions{})
			must(t, err)
			then := time.Now().Add(time.Second).Truncate(time.Second).Add(time.Second)
			time.Sleep(time.Until(then.Add(time.Second))) // moments are told in whole seconds

			writer := writeAllTheTime(t, c)
			_, err = c.CoreV1().Secrets("shop").Patch(ctx, "key", "application/merge-patch+json", []byte(`{"stringData":{"password":"other"}}`), metav1.PatchOptions{})
			must(t, err)
			must(t, c.AppsV1().Deployments("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
			must(t, c.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
			_, err = c.CoreV1().ConfigMaps("shop").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
			must(t, err)
			var space struct {
				Keys, Revision, Compacted int64
				Records                   struct{ Objects, Bytes, OldRecords int64 }
				Resources                 []struct {
					Name           string
					Objects, Bytes int64
				}
				Disk, History struct{ Bytes, Disk int64 }
			}
			look := func(args ...string) int {
				said, _ := kanzenSays(t, 0, append([]string{"space", "-o", "json"}, args...)...)
				must(t, json.Unmarshal([]byte(said), &space))
				for _, r := range space.Resources {
					if r.Name == "secrets" {
						return int(r.Objects)
					}
				}
				return 0
			}
			look(at)
			changed := space.Revision
			within(t, time.Minute, "the database is compacted", func(context.Context) bool {
				return look(at) == 1 && space.Compacted > changed
			})
			if space.Disk.Bytes < space.Records.Bytes/4 || space.History.Disk == 0 || space.Keys != space.Records.Objects {
				t.Errorf("the running server takes %+v", space)
			}

			file := filepath.Join(dir, "then.db")
			kanzenSays(t, 0, "snapshot", "save", file, at, "--at="+then.UTC().Format(time.RFC3339))
			n, _ := writer.end()
			t.Logf("%d writes meanwhile", n)
			_, stderr := kanzenSays(t, 1, "snapshot", "save", file+".early", at, "--at=1000h")
			if !strings.Contains(stderr, "begins at revision") {
				t.Errorf("before the history: %s", stderr)
			}
			said, _ := kanzenSays(t, 0, "snapshot", "diff", file, at, encrypted, "--namespace=shop")
			for _, line := range []string{"- deployments.apps shop/web", "- services shop/web", "~ secrets shop/key", "+ configmaps shop/later"} {
				if !strings.Contains(said, line) {
					t.Errorf("diff lacks %q: %s", line, said)
				}
			}
			kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--namespace=shop", "--resource=deployments.apps")
			_, err = c.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
			must(t, err)
			if code, _ := k.end(syscall.SIGTERM); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			if look(at); space.Keys == 0 || space.Disk.Bytes == 0 || space.History.Disk == 0 {
				t.Errorf("the stopped server takes %+v", space)
			}
			if look(file) != 1 || space.Compacted != space.Revision {
				t.Errorf("the snapshot has %+v", space)
			}

			again := filepath.Join(dir, "again")
			kanzenSays(t, 0, "snapshot", "restore", file, "--to-data-dir="+again)
			r := serve(t, again, encrypted)
			got, err := r.client().CoreV1().Secrets("shop").Get(ctx, "key", metav1.GetOptions{})
			must(t, err)
			if got.ResourceVersion != want.ResourceVersion || got.UID != want.UID || string(got.Data["password"]) != "hunter2" {
				t.Errorf("the restored secret is %v, want %v", got, want)
			}
			_, err = r.client().AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
			must(t, err)
			_, err = r.client().CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
			must(t, err)
			if _, err := r.client().CoreV1().ConfigMaps("shop").Get(ctx, "later", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("what came later: %v", err)
			}
			d, err := dynamic.NewForConfig(r.config())
			must(t, err)
			_, err = d.Resource(gizmos).Namespace("shop").Get(ctx, "g", metav1.GetOptions{})
			must(t, err)
			must(t, createConfigMap(ctx, r.client(), "goes-on"))
		})
	}
}
