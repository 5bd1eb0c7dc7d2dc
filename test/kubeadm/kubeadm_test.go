//go:build linux

package main

import (
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

func TestSerial(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if number, err := serial(server.Listener.Addr().String()); err != nil || number == "" {
		t.Error(number, err)
	}
}
