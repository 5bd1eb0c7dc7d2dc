package sequences

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/goldens"
	"github.com/kanzen-io/kanzen/test/peer"
)

var (
	number = flag.Int("sequences", 30, "how many sequences to run")
	seed   = flag.Uint64("seed", 1, "of the first sequence")
	replay = flag.String("replay", "", "a file of steps, one a line, to run instead")
	about  = flag.String("kinds", "", "only of these kinds, with commas between")
	only   = flag.String("themes", "", "only sequences of these themes, with commas between")
)

// program is kanzen under the name kube-apiserver.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "kanzen-sequences-")
	if err == nil {
		program = filepath.Join(dir, "kube-apiserver")
		if built := os.Getenv("KANZEN"); built != "" {
			err = os.Symlink(built, program)
		} else {
			build := exec.Command("go", "build", "-o", program, "./cmd/kanzen")
			build.Dir, build.Stderr = "../..", os.Stderr
			err = build.Run()
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// start starts both servers with further flags, and with what the manifests need.
func start(t *testing.T, flags ...string) (*pair, []*kind) {
	t.Helper()
	flags = append([]string{"--service-cluster-ip-range=10.0.0.0/16,fd00:1::/108"}, flags...)
	etcds := []string{peer.Etcd(t), peer.Etcd(t)}
	theirs := peer.StartOn(t, etcds[0], flags...)
	ours := peer.StartProgram(t, program, etcds[1], "", peer.FreePort(t), flags...)
	kinds := func() []*kind { k, err := readKinds(t.Context(), theirs); fail(t, err); return k }
	p := &pair{mark: "q"}
	var err error
	p.ours, err = newServer(ours)
	fail(t, err)
	p.peers, err = newServer(theirs)
	fail(t, err)
	for _, s := range []server{p.ours, p.peers} {
		t.Cleanup(s.hooks.Close)
		fail(t, s.fixtures(t.Context()))
	}
	return p, kinds()
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixtures makes the classes and definitions that manifests name.
func (s server) fixtures(ctx context.Context) error {
	where := map[string]string{"PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses", "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
		"StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "VolumeAttributesClass": "/apis/storage.k8s.io/v1/volumeattributesclasses",
		"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}
	side := &side{server: s, seen: map[string][]metadata{}}
	for _, o := range goldens.Fixtures() {
		path := where[fmt.Sprint(o["kind"])]
		if path == "" {
			continue
		}
		got, err := side.do(ctx, step{Method: "POST", Path: path, Body: text(o)})
		if err != nil || got.code != http.StatusCreated {
			return fmt.Errorf("%v %v: %w", path, got, err)
		}
	}
	for _, path := range []string{"/apis/example.test/v1/widgets", "/apis/example.test/v1/gizmos"} {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			got, err := side.do(ctx, step{Method: "GET", Path: path})
			if err == nil && got.code == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s: %v %w", path, got, err)
			}
		}
	}
	return nil
}

// TestSequences runs random sequences on both servers.
func TestSequences(t *testing.T) {
	if testing.Short() {
		t.Skip("kube-apiserver takes five seconds to start")
	}
	chosen, met, steps := turns(t), map[string]int{}, 0
	pairs := map[string]*pair{}
	var kinds []*kind
	of := func(s theme) *pair {
		if pairs[s.flag] == nil {
			pairs[s.flag], kinds = start(t, s.flags()...)
		}
		return pairs[s.flag]
	}
	if *replay != "" {
		f, err := of(chosen[0]).run(t.Context(), readSteps(t, *replay), slow)
		fail(t, err)
		if f != nil {
			t.Error(f)
		}
		return
	}
	for i := range uint64(*number) {
		s := chosen[(*seed+i)%uint64(len(chosen))]
		p := of(s)
		g := &generator{Rand: rand.New(rand.NewPCG(*seed+i, 0)), kinds: among(kinds, *about)}
		steps := s.sequence(g)
		var f *found
		for _, at := range []pace{hurried, slow, patient} { // what differs once may be a matter of time
			var err error
			f, err = p.run(t.Context(), steps, at)
			fail(t, err)
			if f == nil {
				break
			}
		}
		if f == nil {
			continue
		}
		sign := f.signature()
		if met[sign]++; met[sign] > 1 {
			continue
		}
		steps, f, err := p.shrink(t.Context(), steps, f)
		fail(t, err)
		t.Errorf("-themes %s -seed %d: %s\n%v\n%s", s.name, *seed+i, sign, f, script(steps))
	}
	for _, p := range pairs {
		steps += p.steps
	}
	t.Logf("%d sequences, %d steps, differences %v", *number, steps, met)
}

// among are the kinds that a list with commas between names; all if it is empty.
func among(all []*kind, list string) []*kind {
	return slices.DeleteFunc(slices.Clone(all), func(k *kind) bool { return list != "" && !strings.Contains(","+list+",", ","+k.kind+",") })
}

// theme makes sequences of one sort.
type theme struct {
	name     string
	share    int // of 16 sequences
	sequence func(*generator) []step
	flag     string // of both servers
}

// themes are all of them. Those that wait for servers have small shares.
var themes = []theme{
	{"objects", 5, (*generator).sequence, ""},
	{"rights", 4, (*generator).rights, ""},
	{"definitions", 3, (*generator).definitions, ""},
	{"webhooks", 2, (*generator).webhooks, ""},
	{"policies", 1, (*generator).policies, ""},
	{"cbor", 1, (*generator).cbor, "--feature-gates=CBORServingAndStorage=true"},
}

func (s theme) flags() []string {
	if s.flag == "" {
		return nil
	}
	return []string{s.flag}
}

// turns are the themes of the flag, one after the other, each as often as its share is.
func turns(t *testing.T) []theme {
	chosen := themes
	if *only != "" {
		names := strings.Split(*only, ",")
		chosen = slices.DeleteFunc(slices.Clone(themes), func(s theme) bool { return !slices.Contains(names, s.name) })
		if len(chosen) != len(names) {
			t.Fatalf("-themes %s", *only)
		}
	}
	var out []theme
	for round := range 5 {
		for _, c := range chosen {
			if round < c.share {
				out = append(out, c)
			}
		}
	}
	return out
}

func (f *found) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "after step %d, %s:", f.number, f.step)
	for _, d := range f.differences {
		fmt.Fprintf(&b, "\n    %s", d)
	}
	return b.String()
}

func script(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("  " + s.String() + "\n")
	}
	return b.String()
}

func readSteps(t *testing.T, file string) []step {
	t.Helper()
	data, err := os.ReadFile(file)
	fail(t, err)
	var out []step
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			var s step
			fail(t, json.Unmarshal(line, &s))
			out = append(out, s)
		}
	}
	return out
}
