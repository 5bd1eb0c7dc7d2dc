package planes

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestLife creates, uses, puts to sleep and deletes planes at random, and restarts the server meanwhile. What was written is there until
// its plane is deleted, and in the end the log has nothing but of planes that exist.
func TestLife(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	g := start(t, settings(dir))
	written := map[string]map[string]bool{} // names of ConfigMaps, by plane
	for n := range 150 {
		name := fmt.Sprint("p", r.IntN(8))
		there := written[name]
		switch act := r.IntN(12); {
		case there == nil:
			g.create(t, name, PlaneSpec{})
			written[name] = map[string]bool{}
		case act < 5:
			object := fmt.Sprint("c", n)
			g.must(t, name, "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":%q}}`, object), nil)
			there[object] = true
		case act < 8:
			if err := g.find(name).sleep(); err != nil {
				t.Fatal(err)
			}
		case act < 9:
			delete(g.certs, name)
			delete(written, name)
			var patch any
			if r.IntN(3) == 0 { // by one who does not wait for what the finalizer is for
				patch = []byte(`{"metadata":{"finalizers":null}}`)
			}
			g.delete(t, name, patch)
		case act < 10:
			g.stop()
			g = start(t, settings(dir))
		default:
			for object := range there {
				g.must(t, name, "GET", configMaps+"/"+object, "", nil)
			}
		}
	}
	uids := map[string]bool{}
	for name, objects := range written {
		for object := range objects {
			g.must(t, name, "GET", configMaps+"/"+object, "", nil)
		}
		uids[string(g.await(t, name, func(p *Plane) bool { return meta.IsStatusConditionTrue(p.Status.Conditions, ready) }).UID)] = true
	}
	g.ending.Wait()
	g.sweep(t.Context())
	if _, err := g.on.DB.Range(t.Context(), kv.Range{Key: Prefix, End: kv.PrefixEnd(Prefix)}, func(k kv.KeyValue) bool {
		if uid, _, _ := strings.Cut(strings.TrimPrefix(string(k.Key), Prefix), "/"); !uids[uid] {
			t.Errorf("a key of no plane: %q", k.Key)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

// delete deletes a Plane and waits until it is gone; patch, if it is not nil, is applied meanwhile.
func (g *ground) delete(t *testing.T, name string, patch any) {
	t.Helper()
	for done := false; !done; {
		if err := g.root.do(t.Context(), http.MethodDelete, planesPath+"/"+name, "", nil, nil); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if patch != nil {
			_ = g.root.do(t.Context(), http.MethodPatch, planesPath+"/"+name, mergePatch, patch, nil) // it may be gone
		}
		done = apierrors.IsNotFound(g.root.do(t.Context(), http.MethodGet, planesPath+"/"+name, "", nil, nil))
	}
	for g.find(name) != nil { // until the watch has told
		if err := g.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
