package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestMigrate moves a data directory from etcd to pebble and back, while a client writes whenever there is a server. A watch that goes on where it
// was sees every write once and no gap, and never has to list again.
func TestMigrate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var written atomic.Int64
	seen, at := int64(0), ""
	for round, to := range []string{"pebble", "etcd", ""} {
		k := serve(t, dir, noRootCA)
		configMaps := k.client().CoreV1().ConfigMaps("default")
		if at == "" {
			list, err := configMaps.List(t.Context(), metav1.ListOptions{})
			must(t, err)
			at = list.ResourceVersion
		}
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: at, LabelSelector: "migrate=yes"})
		if err != nil {
			t.Fatalf("round %d: the watch from %s: %v", round, at, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				n := written.Load() + 1
				_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%06d", n), Labels: map[string]string{"migrate": "yes"}}}, metav1.CreateOptions{})
				if err == nil || apierrors.IsAlreadyExists(err) {
					written.Store(n)
				}
			}
		}()
		for enough := seen + 100; seen < enough; {
			seen, at = next(t, w, seen)
		}
		stop()
		<-ended
		for seen < written.Load() {
			seen, at = next(t, w, seen)
		}
		w.Stop()
		if code, _ := k.end(syscall.SIGTERM); code != 0 {
			t.Fatal(code, k.stderr.String())
		}
		if to != "" {
			out, said, code := output(t, binaries.kanzen, "migrate", "--data-dir", dir, "--to", to)
			if code != 0 || !strings.Contains(out, " now uses "+to) {
				t.Fatal(out, said)
			}
			if out, said, code := output(t, binaries.kanzen, "check", "--data-dir", dir); code != 0 || !strings.Contains(out, to+" in "+dir+" is sound") {
				t.Error(out, said)
			}
			must(t, os.RemoveAll(filepath.Join(dir, other(to)+".before-migration")))
		}
	}
}

func other(engine string) string {
	if engine == "etcd" {
		return "pebble"
	}
	return "etcd"
}

// next takes the next event of a watch, which must be the one after seen.
func next(t *testing.T, w watch.Interface, seen int64) (n int64, at string) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		m, ok := e.Object.(*corev1.ConfigMap)
		if !open || !ok || e.Type != watch.Added || m.Name != fmt.Sprintf("m%06d", seen+1) {
			t.Fatalf("after %d comes %+v", seen, e)
		}
		return seen + 1, m.ResourceVersion
	case <-time.After(time.Minute):
		t.Fatalf("after %d comes nothing", seen)
	}
	panic("unreachable")
}

// TestEngineOfDirectory: a data directory keeps its engine, and a server that is told to use another one refuses, before it makes anything.
func TestEngineOfDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := serve(t, dir, "--engine=pebble", noRootCA)
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, said, code := output(t, binaries.kanzen, "migrate", "--data-dir", dir, "--to", "etcd"); code != 1 || !strings.Contains(said, "in use") {
		t.Errorf("migrating under a server: %d, %s", code, said)
	}
	if code, _ := k.end(syscall.SIGTERM); code != 0 {
		t.Fatal(k.stderr.String())
	}
	if _, err := tryServe(t, dir, "--engine=etcd"); err == nil || !strings.Contains(err.Error(), "kanzen migrate") {
		t.Errorf("another engine: %v", err)
	}
	k = serve(t, dir, noRootCA)
	if _, err := k.client().CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][]string{{"--engine=kine"}, {"--engine=pebble", "--etcd-servers=http://127.0.0.1:1"}, {"--engine=pebble", "--etcd-listen-client-urls=https://127.0.0.1:1"}} {
		if _, err := tryServe(t, t.TempDir(), wrong...); err == nil || !strings.Contains(err.Error(), "--engine") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestSnapshotOfPebble takes a snapshot of a server on pebble, and restores it to a directory of etcd: the format of backups is one.
func TestSnapshotOfPebble(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := serve(t, dir, "--engine=pebble", noRootCA)
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace("saved"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	file, restored := t.TempDir()+"/saved.db", t.TempDir()+"/restored"
	for _, args := range [][]string{{"snapshot", "save", file, "--data-dir", dir}, {"snapshot", "inspect", file}, {"snapshot", "restore", file, "--to-data-dir", restored}} {
		if out, said, code := output(t, binaries.kanzen, args...); code != 0 {
			t.Fatalf("%q: %s%s", args, out, said)
		}
	}
	if _, said, code := output(t, binaries.kanzen, "snapshot", "restore", file, "--to-data-dir", dir); code != 1 || !strings.Contains(said, "is not empty") {
		t.Errorf("restoring over a database: %d, %s", code, said)
	}
	k = serve(t, restored, noRootCA)
	if _, err := k.client().CoreV1().Namespaces().Get(t.Context(), "saved", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
