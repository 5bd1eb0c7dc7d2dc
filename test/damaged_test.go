package test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var damages = flag.Int("damages", 25, "how many damaged data directories of each engine TestDamagedAtRandom starts a server on")

// TestDamagedAtRandom cuts off files below the data directory of a stopped server and flips bits in them, one file at a time. A server
// that is started on it says in a line what is wrong, or has every object as it was. It never panics.
func TestDamagedAtRandom(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"etcd", "pebble"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			damageAtRandom(t, "--engine="+engine)
		})
	}
}

func damageAtRandom(t *testing.T, engine string) {
	random := rand.New(rand.NewPCG(3, 4))
	tokens := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(tokens, []byte("T,admin,admin,system:masters\n"), 0o600))
	args := []string{"--token-auth-file", tokens, "--controllers=", engine}

	sound := filepath.Join(t.TempDir(), "sound")
	k := serve(t, sound, args...)
	c := k.client()
	for n := range 60 {
		data := map[string]string{"text": strings.Repeat(fmt.Sprint("value ", n, " "), 60)}
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m-", n)}, Data: data}, metav1.CreateOptions{})
		must(t, err)
	}
	want := contentsOf(t, k)
	if code, _ := k.end(syscall.SIGTERM); code != 0 {
		t.Fatal(code)
	}
	var files []string
	must(t, filepath.WalkDir(sound, func(path string, d fs.DirEntry, err error) error {
		if info, infoErr := d.Info(); infoErr == nil && info.Mode().IsRegular() && info.Size() > 0 {
			files = append(files, strings.TrimPrefix(path, sound))
		}
		return err
	}))
	refused := 0
	for n := range *damages {
		dir := filepath.Join(t.TempDir(), "damaged")
		if _, said, code := output(t, "cp", "-a", sound, dir); code != 0 { // with the times of files, by which etcd's seal is known
			t.Fatal(said)
		}
		file := filepath.Join(dir, files[n%len(files)])
		what := damage(t, random, file)
		k, err := tryServe(t, dir, args...)
		if err != nil {
			refused++
			said := err.Error()
			if regexp.MustCompile(`(?m)^goroutine \d|^panic:|^fatal error:`).MatchString(said) || !strings.Contains(said, "Error: ") {
				t.Errorf("%s %s: %s", file, what, said)
			}
			must(t, os.RemoveAll(dir))
			continue
		}
		if got := contentsOf(t, k); !maps.Equal(got, want) && !strings.Contains(k.stderr.String(), "WARN") {
			t.Errorf("%s %s: %d objects of %d, and nothing is said:\n%s", file, what, len(got), len(want), k.stderr.String())
		}
		if code, _ := k.end(syscall.SIGTERM); code != 0 {
			t.Errorf("%s %s: it ends with code %d:\n%s", file, what, code, k.stderr.String())
		}
		must(t, os.RemoveAll(dir)) // a thousand take more than a disk
	}
	t.Logf("%d directories, files %s: %d servers did not start", *damages, files, refused)
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// damage damages a file, and says how.
func damage(t *testing.T, random *rand.Rand, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	must(t, err)
	written := len(bytes.TrimRight(content, "\x00")) // the rest of a log is there for later
	if random.IntN(3) == 0 {
		at := random.IntN(written)
		must(t, os.Truncate(file, int64(at)))
		return fmt.Sprint("cut off at ", at)
	}
	var flipped []int
	for range 1 + random.IntN(4) {
		at := random.IntN(written)
		for tries := 0; content[at] == 0 && tries < 50; tries++ { // most of a database's pages are free
			at = random.IntN(written)
		}
		content[at] ^= 1 << random.IntN(8)
		flipped = append(flipped, at)
	}
	must(t, os.WriteFile(file, content, 0o600))
	return fmt.Sprint("flipped at ", flipped)
}

// contentsOf returns the objects of a server by kind and name, as text.
func contentsOf(t *testing.T, k *kanzen) map[string]string {
	t.Helper()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + k.address, BearerToken: "T", QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	out := map[string]string{}
	objects, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, m := range objects.Items {
		out["configmap "+m.Name] = string(m.UID) + fmt.Sprint(m.Data)
	}
	roles, err := c.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, r := range roles.Items {
		out["role "+r.Name] = string(r.UID) + fmt.Sprint(r.Rules)
	}
	if len(out) == 0 || slices.Contains(slices.Collect(maps.Values(out)), "") {
		t.Error("there is nothing to compare")
	}
	return out
}
