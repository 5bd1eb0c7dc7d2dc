//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/test/machine"
)

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"upgrade":       "unknown arguments [upgrade]",
		"-bin=/tmp/x":   "nodes have a /tmp/ of their own",
		"stage nowhere": `there is no stage "nowhere"`,
	} {
		err := mainStage(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", args, err, want)
		}
	}
}

// TestNodeFiles looks for places that nothing was put into.
func TestNodeFiles(t *testing.T) {
	s := settings{Layout: machine.Layout{Cache: t.TempDir(), Group: group, Out: t.TempDir()}}
	if err := machine.WriteNodeFiles(s.Layout, 2, nodeFiles(), s.values(2)...); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kubeadm.yaml": "advertiseAddress: 10.210.0.12,", "kubelet": "--cgroup-root=/kanzen-kubeadm/node-2\n", "patches/kube-apiserver+strategic.yaml": "image: " + kanzenImage + "\n",
		"released/kube-apiserver+strategic.yaml": "image: docker.io/library/kanzen:v1.37.2\n", "hosts": "10.210.0.14 node-4\n",
	} {
		b, err := os.ReadFile(s.Config(2, name))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(b); !strings.Contains(text, want) || strings.Contains(text, "$") {
			t.Errorf("%s has no %q, or a place that nothing was put into:\n%s", name, want, text)
		}
	}
}

// TestLost asks what a count says of writes that are gone, and of a watch that missed some.
func TestLost(t *testing.T) {
	there := func(pairs ...string) (list []corev1.ConfigMap) {
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			m := newMap(name, 0)
			m.Data["value"] = value
			list = append(list, *m)
		}
		return list
	}
	for _, c := range []struct {
		name  string
		count *counter
		found []corev1.ConfigMap
		want  string
	}{
		{"all is there", &counter{created: []string{"object-a"}, value: 3, tried: 4, seen: map[string]int{"object-a": 1}}, there("value=4", "object-a=1"), ""},
		{"what was not confirmed may be there", &counter{seen: map[string]int{"object-b": 1}}, there("value=0", "object-b=2"), ""},
		{"a confirmed update is gone", &counter{value: 3, tried: 4}, there("value=2"), "the value is 2, 3 was confirmed"},
		{"a confirmed object is gone", &counter{created: []string{"object-a"}, seen: map[string]int{"object-a": 1}}, there("value=0"), "object-a was confirmed and is not there"},
		{"the watch missed one", &counter{created: []string{"object-a"}}, there("value=0", "object-a=1"), "the watch saw object-a appear 0 times"},
		{"the watch saw one twice", &counter{created: []string{"object-a"}, seen: map[string]int{"object-a": 2}}, there("value=0", "object-a=1"), "the watch saw object-a appear 2 times"},
	} {
		err := c.count.lost(c.found)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAway(t *testing.T) {
	var c calls
	begin := time.Unix(0, 0)
	for _, at := range []int{1, 2, 9, 10} {
		c.answered(begin.Add(time.Duration(at) * time.Second))
	}
	if c.away != 7*time.Second || c.good != 4 {
		t.Errorf("%+v", c)
	}
}

// TestBalancer passes a connection on to a server that is ready, and closes it when the server is gone.
func TestBalancer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBalancer()
	b.start(ctx, listener)
	server := func(name string, code int) *httptest.Server {
		return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, name)
		}))
	}
	unready, good := server("unready", http.StatusInternalServerError), server("good", http.StatusOK)
	defer unready.Close()
	defer good.Close()
	client := good.Client()
	ask := func(context.Context) error {
		response, err := client.Get("https://" + listener.Addr().String())
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "good" {
			return fmt.Errorf("%q, %w", text, errors.Join(err, errors.New("not the good one")))
		}
		return nil
	}
	if ask(ctx) == nil {
		t.Error("there is no server, and one has answered")
	}
	b.add(ctx, unready.Listener.Addr().String())
	b.add(ctx, good.Listener.Addr().String())
	if err := machine.Eventually(ctx, 10*time.Second, "the ready server answers", ask); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		client.CloseIdleConnections()
		if err := ask(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := serial(good.Listener.Addr().String()); err != nil {
		t.Error(err)
	}
	good.Close()
	if err := machine.Eventually(ctx, 10*time.Second, "no server answers", func(ctx context.Context) error {
		if ask(ctx) == nil {
			return errors.New("one has")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
