package test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRecord saves an incident, and looks at it when the server is gone. The server itself remembers over a restart.
func TestRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	k := serve(t, data)
	ctx, admin := t.Context(), k.as("", "setup", nil)
	dead := "https://127.0.0.1:" + freePort(t) + "/validate"
	_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "canary-1"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = k.as("", "editor/v2", nil).CoreV1().ConfigMaps("default").Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "canary-2"}}, metav1.UpdateOptions{})
	must(t, err)
	_, err = admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "canary-3"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, hook("dead", dead, otherCA(t), nil), metav1.CreateOptions{})
	must(t, err)
	if _, err = k.as("", "deployer/v1", nil).CoreV1().ConfigMaps("default").Create(ctx, configMap("never"), metav1.CreateOptions{}); err == nil {
		t.Fatal("not refused")
	}
	k.diagnosed(t, "WebhookFailing", "Error", "dead/dead.example.com")
	contains(t, k.tells("why", "cm/settings"), `data.a: "canary-1" → "canary-2"`)
	contains(t, k.tells("why", "cm/never"), "was not created", "create refused (500 InternalError)", "message: Internal error occurred: failed calling webhook", "deployer/v1")

	out, said, code := output(t, binaries.kanzen, "record", "--kubeconfig", k.kubeconfig(), "--since", "5m")
	if code != 0 || said != "" {
		t.Fatalf("%d %s", code, said)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(out))
	must(t, err)
	text, err := io.ReadAll(unpacked)
	must(t, err)
	if !bytes.HasPrefix(text, []byte(`{"kind":"Incident",`)) || bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("Y2FuYXJ5")) {
		t.Errorf("%.300s", text)
	}
	for _, kind := range []string{"Request", "Finding", "TrafficStat", "View", "Datastore", "WebhookStat", "Event"} {
		if !bytes.Contains(text, []byte(`"kind":"`+kind+`"`)) {
			t.Errorf("no %s", kind)
		}
	}
	file := filepath.Join(dir, "incident")
	must(t, os.WriteFile(file, []byte(out), 0o600))
	k.end(syscall.SIGTERM)

	read := func(want int, args ...string) string {
		t.Helper()
		out, said, code := output(t, binaries.kanzen, append(args, "--from", file)...)
		if code != want {
			t.Errorf("%q: %d %s", args, code, said)
		}
		return out
	}
	contains(t, read(0, "why", "cm/settings"), "ConfigMap settings in default: as recorded between", "created by kubernetes-admin with setup", "updated by kubernetes-admin with editor/v2", "data.a (value hidden)")
	contains(t, read(0, "why", "configmap/never"), "create refused (500 InternalError) by kubernetes-admin with deployer/v1", "webhook dead/dead.example.com")
	contains(t, read(2, "diagnose"), "ERROR   webhook dead/dead.example.com fails", "nothing listens there")
	must(t, os.WriteFile(file, text[:len(text)/2], 0o600)) // not compressed, and cut off
	if _, said, code := output(t, binaries.kanzen, "diagnose", "--from", file); code != 1 || !strings.Contains(said, "is not what kanzen record writes") {
		t.Errorf("%d %s", code, said)
	}

	k = serve(t, data)
	contains(t, k.tells("why", "cm/settings"), "created by kubernetes-admin with setup", "updated by kubernetes-admin with editor/v2", "data.a (value hidden)")
	contains(t, k.tells("why", "cm/never"), "create refused (500 InternalError)", "deployer/v1")
	within(t, 20*time.Second, "the disk has no values", func(context.Context) bool {
		text, err := os.ReadFile(filepath.Join(data, "recorder", "requests.jsonl"))
		return err == nil && len(text) > 0 && !bytes.Contains(text, []byte("canary"))
	})
	none := serve(t, filepath.Join(dir, "none"), "--flight-recorder-dir-size=0")
	none.tells("diagnose")
	if _, err := os.Stat(filepath.Join(dir, "none", "recorder")); !os.IsNotExist(err) {
		t.Errorf("--flight-recorder-dir-size=0: %v", err)
	}
}
