package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestHostileIncidents saves incidents of servers with plain and with nasty texts, and shows them.
func TestHostileIncidents(t *testing.T) {
	var shown []string
	for _, text := range []string{"x", nasty} {
		server := httptest.NewServer(teller(text))
		file, err := os.Create(filepath.Join(t.TempDir(), "incident"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := rootCommand()
		var notes bytes.Buffer
		cmd.SetArgs([]string{"record", "--since", "24h", "--kubeconfig", kubeconfigOf(t, server.URL)})
		cmd.SetOut(file)
		cmd.SetErr(&notes)
		err = cmd.ExecuteContext(t.Context())
		server.Close()
		if err != nil || file.Close() != nil {
			t.Fatal(err)
		}
		clean(t, "record", notes.String())
		for n, args := range [][]string{{"diagnose"}, {"diagnose", "-o", "json"}, {"why", "widgets", text}, {"why", "nothing", "x"}} {
			got, _ := said(t.Context(), append(args, "--from", file.Name())...)
			clean(t, strings.Join(args, " "), got)
			if text == "x" {
				shown = append(shown, got)
				continue
			}
			if strings.Count(got, "\n") != strings.Count(shown[n], "\n") {
				t.Errorf("%q prints\n%s\nof plain texts\n%s", args, got, shown[n])
			}
			if args[0] == "diagnose" && !strings.Contains(got, "PWNED") {
				t.Errorf("%q shows nothing of the file: %s", args, got)
			}
		}
	}
}

// TestForgedIncident reads files that somebody has made to cost much: each is refused in a line, or shown, within bounds.
func TestForgedIncident(t *testing.T) {
	const head = `{"kind":"Incident","served":[{"resource":"pods","scope":"Namespaced"}]}` + "\n"
	lines := func(line string, bytes int) string { return strings.Repeat(line+"\n", bytes/(len(line)+1)) }
	for name, text := range map[string]string{
		"requests": lines(`{"kind":"Request"}`, 20<<20), "findings": lines(`{"kind":"Finding"}`, 1<<20), "lines": lines(``, 1<<20), "others": lines(`{"kind":"Event","a":"`+strings.Repeat("a", 1<<20)+`"}`, 300<<20),
		"steps": `{"kind":"Request","verb":"create","resource":"pods","namespace":"default","name":"a","code":500,"steps":[{}` + strings.Repeat(",{}", (maxIncidentRequest-200)/3) + "]}\n", "a request": `{"kind":"Request","steps":[{}` + strings.Repeat(",{}", maxIncidentRequest/3) + "]}\n",
		"a line":  strings.Repeat("a", 2*maxIncidentLine),
		"numbers": `{"kind":"Request","number":1e400}` + "\n", "deep": strings.Repeat("[", 1<<20) + "\n", "times": `{"kind":"Request","verb":"create","resource":"pods","namespace":"default","name":"a","code":500,"time":"9999-12-31T23:59:59.999999Z","duration":"2562047h"}` + "\n",
		"null": "null\n", "cut": `{"kind":`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "incident")
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, err := fmt.Fprint(w, head, text)
			if err != nil || w.Close() != nil || os.WriteFile(path, packed.Bytes(), 0o600) != nil {
				t.Fatal(err)
			}
			packed, text = bytes.Buffer{}, ""
			args := []string{"why", "pods/a", "--from", path}
			if name == "findings" {
				args = []string{"diagnose", "--from", path}
			}
			peak, done := watchHeap()
			got, _ := said(t.Context(), args...)
			done()
			clean(t, name, got)
			if mib := peak.Load() >> 20; mib > 700 || len(got) > 1<<20 {
				t.Errorf("%d MiB, prints %d bytes", mib, len(got))
			}
		})
	}
}

// TestRecordBehindWatch saves what happened while somebody watched: the watch ends after it, and began long before.
func TestRecordBehindWatch(t *testing.T) {
	now, others := time.Now(), teller("x")
	list := v1alpha1.RequestList{}
	for _, r := range []struct {
		name      string
		ago, took time.Duration
	}{{"watch", time.Hour, time.Hour}, {"write", time.Minute, 0}, {"old", time.Hour, 0}} {
		q := v1alpha1.Request{}
		q.ObjectMeta.Name, q.Time, q.Duration = r.name, metav1.NewMicroTime(now.Add(-r.ago)), metav1.Duration{Duration: r.took}
		list.Items = append(list.Items, q)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == recorderPath+"requests" {
			_ = json.NewEncoder(w).Encode(list)
			return
		}
		others(w, r)
	}))
	defer server.Close()
	cmd := rootCommand()
	var saved bytes.Buffer
	cmd.SetArgs([]string{"record", "--since", "10m", "--kubeconfig", kubeconfigOf(t, server.URL)})
	cmd.SetOut(&saved)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "incident")
	if err := os.WriteFile(path, saved.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readIncident(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.requests) != 1 || !strings.Contains(string(r.requests[0]), `"write"`) {
		t.Errorf("saved %s", r.requests)
	}
}
