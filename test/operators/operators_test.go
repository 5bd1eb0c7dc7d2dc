//go:build linux

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/test/evidence"
	"github.com/kanzen-io/kanzen/test/machine"
)

// TestOperators asks of each operator that it names a version, what it runs and does, and why something is left out.
func TestOperators(t *testing.T) {
	names := map[string]bool{}
	for _, o := range operators {
		if names[o.name] || !strings.HasPrefix(o.version(), "v") || len(o.programs) == 0 || len(o.steps) == 0 || o.install == nil {
			t.Errorf("%s is not whole", o.name)
		}
		names[o.name] = true
		steps := map[string]bool{}
		for _, s := range o.steps {
			if steps[s.name] || s.run == nil {
				t.Errorf("%s: the step %q is there twice or does nothing", o.name, s.name)
			}
			steps[s.name] = true
		}
		for at, tool := range o.tools {
			if !strings.HasPrefix(at, "/") || !strings.Contains(tool, "@v") {
				t.Errorf("%s: the tool %s at %s", o.name, tool, at)
			}
		}
		for image, path := range o.installed {
			if o.packages[path] == "" || o.programs[image] != "" {
				t.Errorf("%s: %s is of no package, or %s is built", o.name, path, image)
			}
		}
		for image := range o.places {
			if o.programs[image] == "" {
				t.Errorf("%s: there is no program of %s", o.name, image)
			}
		}
		for what, why := range o.leftOut {
			if what == "" || why == "" {
				t.Errorf("%s leaves out %q because %q", o.name, what, why)
			}
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for args, want := range map[string]string{
		"nothing":               `there is no operator "nothing"; there are ["cert-manager"`,
		"-hold":                 "name the operator that is to stay",
		"-cache=/tmp/x kueue":   "nodes have a /tmp/ of their own",
		"stage nowhere kueue":   `there is no stage "nowhere"`,
		"stage pod nowhere.txt": "nowhere.txt: no such file",
	} {
		err := mainStage(strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", args, err, want)
		}
	}
}

func TestProgramOf(t *testing.T) {
	o := operator{programs: map[string]string{"manager": "."}}
	for image, want := range map[string]bool{"manager": true, "example.com:5000/a/manager:v1": true, "example.com/manager@sha256:0": true, "example.com/manager:v1@sha256:0": true, "manager-2:v1": false} {
		if _, is := o.programOf(image); is != want {
			t.Errorf("%s: %v", image, is)
		}
	}
}

func TestCommandLine(t *testing.T) {
	c := &corev1.Container{Args: []string{"--a=$(A)", "$(NONE)", "$$(A)", "x$(A)$(A)"}}
	if got, want := commandLine(c, []string{"program"}, []string{"A=b=c"}), []string{"program", "--a=b=c", "$(NONE)", "$(A)", "xb=cb=c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Command = []string{"/manager"}
	if got := commandLine(c, []string{"program"}, nil); got[0] != "/manager" || len(got) != 5 {
		t.Errorf("got %q", got)
	}
}

// TestDescribe asks which program a container becomes: that of its image whatever its command line says, or, where the image has several, the one
// that is named.
func TestDescribe(t *testing.T) {
	o := &operator{name: "one", modules: []module{{path: "m@v1"}}, programs: map[string]string{"plain": ".", "several": "."}, installed: map[string]string{"cache": "/usr/bin/cache"},
		places: map[string][]string{"several": {"/usr/local/bin/several"}}, tools: map[string]string{"/usr/local/bin/tool": "example.com/tool@v1"}}
	pod := &corev1.Pod{}
	pod.Namespace = "n"
	r := &running{nodes: &nodes{l: machine.Layout{Programs: "/built"}, operator: o}, pod: pod}
	for _, c := range []struct{ image, program, args string }{
		{"example.com/plain:v1", "/built/one-v1/plain", "plain sh"},
		{"example.com/several:v1", "/built/one-v1/several", "sh"},
		{"example.com/cache:v1", "/usr/bin/cache", "cache sh"},
	} {
		d := r.describe(&corev1.Container{Image: c.image, Args: []string{"sh"}}, &volumes{}, []string{"PATH=/bin"})
		if d.Program != c.program || strings.Join(d.Args, " ") != c.args || d.Image["/usr/local/bin/tool"] != "/built/one-v1/tool" || d.Search != "n.svc.cluster.local" {
			t.Errorf("%s: %+v", c.image, d)
		}
		t.Setenv("PATH", "/nowhere")
		want := "/program"
		if len(d.Places) > 0 {
			want = "/bin/sh"
		}
		if got, err := d.path(); err != nil || got != want {
			t.Errorf("%s: %s, %v", c.image, got, err)
		}
	}
}

func TestPush(t *testing.T) {
	w := &world{l: machine.Layout{Cache: t.TempDir()}}
	if err := w.makeRepository(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := w.push(t.Context(), "two", map[string]string{"a/one": "1", "a/two": "2"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.push(t.Context(), "one", map[string]string{"a/one": ""})
	if err != nil {
		t.Fatal(err)
	}
	for commit, want := range map[string]string{first: "a/one\na/two", second: "a/two", "main": "a/two"} {
		if got, err := w.git(t.Context(), "apps.git", "ls-tree", "-r", "--name-only", commit); err != nil || got != want {
			t.Errorf("%s has %q, %v", commit, got, err)
		}
	}
}

func TestField(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Labels, pod.Status.PodIP = "p", "n", map[string]string{"a": `b"`}, "10.0.0.1"
	for path, want := range map[string]string{"metadata.name": "p", "metadata.namespace": "n", "metadata.labels['a']": `b"`, "metadata.labels": `a="b\""` + "\n", "metadata.annotations['a']": "", "status.podIP": "10.0.0.1"} {
		if got, err := field(pod, path); err != nil || got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := field(pod, "spec.nothing"); err == nil {
		t.Error("a field that there is not")
	}
}

func TestChosen(t *testing.T) {
	data := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	all, err := chosen(data, nil, nil)
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	yes := true
	for _, optional := range []*bool{nil, &yes} {
		some, err := chosen(data, []corev1.KeyToPath{{Key: "a", Path: "x/y"}, {Key: "none", Path: "z"}}, optional)
		if optional == nil && err == nil || optional != nil && (err != nil || len(some) != 1 || string(some["x/y"]) != "1") {
			t.Errorf("%v, %v", some, err)
		}
	}
}

func TestRead(t *testing.T) {
	objects, err := read("# nothing\n---\nkind: A\nmetadata: {name: a}\n---\n---\nkind: B\nstatus: {count: 2, conditions: [{type: Ready, status: \"True\"}]}\n")
	if err != nil || len(objects) != 2 {
		t.Fatalf("%v, %v", objects, err)
	}
	b := objects[1]
	if err := both(condition("Ready", "True"), condition("Other", ""), value("status.count", 2))(b); err != nil {
		t.Error(err)
	}
	for _, ask := range []func() error{func() error { return condition("Ready", "False")(b) }, func() error { return value("status.count", 3)(b) }, func() error { return condition("Other", "True")(b) }} {
		if ask() == nil {
			t.Error("what is not so is said to be")
		}
	}
	if u := (key{"v1", "Pod", "n/p"}).named(); u.GetNamespace() != "n" || u.GetName() != "p" {
		t.Error(u)
	}
	if u := (key{"v1", "Node", "p"}).named(); u.GetNamespace() != "" || u.GetName() != "p" {
		t.Error(u)
	}
}

func TestPortOf(t *testing.T) {
	c := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}}}
	for port, want := range map[string]int{"https": 8443, "99": 99} {
		if got := portOf(c, intstr.Parse(port)); got != want {
			t.Errorf("%s: %d", port, got)
		}
	}
}

func TestEvidence(t *testing.T) {
	o := &operator{name: "one", modules: []module{{path: "m@v1"}}, programs: map[string]string{"b": "./b", "a": "./a"}, leftOut: map[string]string{"much": "no time"}}
	ran := func(states ...bool) *result {
		r := &result{Version: "1", Module: "m@v1", Commit: "c", Date: "d"}
		for i, passed := range states {
			r.Steps = append(r.Steps, outcome{Name: string(rune('a' + i)), Passed: passed, Seconds: 1})
		}
		return r
	}
	for _, c := range []struct {
		on, peer *result
		isPeer   bool
		differs  bool
	}{
		{ran(true, true), nil, false, false},
		{ran(true, false), nil, false, true},
		{ran(true, false), ran(true, false), false, false},
		{ran(true, false), ran(false, true), false, true},
		{ran(true, false), ran(true, false), true, true},
	} {
		if got := differ(c.on, c.peer, c.isPeer); got != c.differs {
			t.Errorf("%v beside %v: %v", c.on.Steps, c.peer, got)
		}
	}
	s := suiteOf(evidence.Suite{Machine: "m"}, o, map[string]results{evidence.Kanzen: {"one": ran(true, false, true)}, evidence.Peer: {"one": ran(true, true, false)}})
	if s.Module != "m v1" || s.Commit != "c" || !slices.Equal(s.Packages, []string{"./a", "./b"}) || s.Of != 2 || len(s.LeftOut) != 1 {
		t.Errorf("%+v", s)
	}
	if got := s.Servers[evidence.Kanzen]; got.Passed != 2 || got.Failed != 1 || got.Seconds != 3 || !slices.Equal(got.Failing, []string{"b"}) {
		t.Errorf("%+v", got)
	}
	if want := []evidence.Difference{{Test: "b", Kanzen: "failed", Peer: "passed"}, {Test: "c", Kanzen: "passed", Peer: "failed"}}; !slices.Equal(s.Differences, want) {
		t.Errorf("%+v", s.Differences)
	}
	older := ran(true)
	older.Module = "m@v0"
	s = suiteOf(evidence.Suite{}, o, map[string]results{evidence.Kanzen: {"one": ran(true)}, evidence.Peer: {"one": older}})
	if got := slices.Collect(maps.Keys(s.Servers)); !slices.Equal(got, []string{evidence.Kanzen}) {
		t.Errorf("another version of the operator is compared: %v", got)
	}
	table := usageOf([]string{"one", "two"}, map[string]results{evidence.Kanzen: {"one": {ProcessorSeconds: 1.25, MiB: 7}}, evidence.Peer: {"two": {}}})
	if !strings.HasSuffix(table, "\n| one | 1.2 s | 7 MiB | – | – |") {
		t.Error(table)
	}
}
