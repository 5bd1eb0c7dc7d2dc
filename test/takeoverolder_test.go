package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/test/peer"
)

// TestTakeoverOfOlder has objects of every kind go from kube-apiserver of the version before to kanzen, back to what kanzen emulates of that
// version, back to kube-apiserver of it, and to kube-apiserver of this one. Each writes all objects: they are stored in the version in which
// kube-apiserver of its version stores them. The next server serves all of them, byte for byte where it is of the same version.
func TestTakeoverOfOlder(t *testing.T) {
	t.Parallel()
	older, etcd := peer.Older(t), peer.Etcd(t)
	link := filepath.Join(t.TempDir(), "kube-apiserver")
	must(t, os.Symlink(binaries.kanzen, link))
	phase := func(name, path string, do func(s *takeoverServer), args ...string) {
		ok := t.Run(name, func(t *testing.T) {
			args = append(args, "--disable-admission-plugins=ServiceAccount")
			s := &takeoverServer{t: t}
			if path == "" {
				s.config = peer.StartOn(t, etcd, args...)
			} else {
				s.config = peer.StartProgram(t, path, etcd, "", peer.FreePort(t), args...)
			}
			do(s)
		})
		if !ok {
			t.FailNow()
		}
	}
	var both, added []*goldenBase // that both versions serve, and the newer one alone
	var objects map[string]string
	var stored [2]map[string]string // by the older and by the newer version
	const emulated = "--emulated-version=1.36"

	phase("1.36 fills", older, func(s *takeoverServer) {
		both, added = s.known(goldenBases(t))
		s.fill(both)
		objects, stored[0] = s.settled(), s.stored(etcd)
		if len(both) < 150 || len(added) == 0 {
			s.t.Errorf("%d objects, and %d of kinds that are new", len(both), len(added))
		}
	})
	phase("kube-apiserver emulates it", "", func(s *takeoverServer) { // its roles are those of its own version
		served := s.settled()
		s.lost(objects, served, nil)
		objects = served
	}, emulated)
	phase("kanzen emulates it", link, func(s *takeoverServer) { s.serves(objects) }, emulated)
	phase("kanzen takes over", link, func(s *takeoverServer) {
		s.fill(added)
		s.label(added, "over")
		both = s.change(both, "over")
		objects, stored[1] = s.settled(), s.stored(etcd)
	})
	phase("kanzen is rolled back", link, func(s *takeoverServer) {
		s.label(both, "back")
		s.storedAs(etcd, stored[0])
		served := s.settled()
		s.lost(objects, served, added)
		objects = served
	}, emulated)
	phase("1.36 has it back", older, func(s *takeoverServer) {
		for key, object := range objects {
			if strings.Contains(key, "/csinodes ") { // 1.36 has no status of them, and 1.37 an empty one also where it emulates 1.36
				objects[key] = strings.Replace(object, `,"status":{}`, "", 1)
			}
		}
		s.serves(objects)
		s.label(both, "again")
		s.storedAs(etcd, stored[0])
		objects = s.settled()
	})
	phase("kube-apiserver takes over", "", func(s *takeoverServer) {
		s.label(append(both, added...), "elsewhere")
		s.storedAs(etcd, stored[1])
		served := s.settled()
		s.lost(objects, served, nil)
		objects = served
	})
	phase("kanzen has the same", link, func(s *takeoverServer) { s.serves(objects) })
}

// toZero scales to zero, which 1.36 does not allow.
const toZero = "autoscaling.v2.HorizontalPodAutoscaler.full.2"

// known divides manifests into those that the server of the older version takes, now or with their definitions, and others.
func (s *takeoverServer) known(all []*goldenBase) (known, others []*goldenBase) {
	s.t.Helper()
	for _, b := range all {
		code, _ := s.send("GET", b.Collection+"?limit=1", nil)
		if b.ID != toZero && (code == http.StatusOK || strings.Contains(b.Collection, ".test/")) {
			known = append(known, b)
		} else {
			others = append(others, b)
		}
	}
	return known, others
}

// lost reports objects that are no longer served, but for those of some manifests, and the entries of versions that servers register and
// remove by themselves.
func (s *takeoverServer) lost(before, now map[string]string, but []*goldenBase) {
	s.t.Helper()
	for _, d := range changedObjects(before, now) {
		if key, missing := strings.CutPrefix(d, "missing: "); missing && !ofBases(key, but) && !strings.Contains(before[key], "kube-aggregator.kubernetes.io/automanaged") {
			s.t.Error("lost: ", key)
		}
	}
}

// ofBases says that a key of objects is of one of the manifests.
func ofBases(key string, bases []*goldenBase) bool {
	resource, _, _ := strings.Cut(key, " ")
	for _, b := range bases {
		if strings.HasSuffix(key, "/"+b.Name) && strings.HasSuffix(b.Collection, resource[strings.LastIndex(resource, "/"):]) {
			return true
		}
	}
	return false
}

// stored says of each key of etcd as which kind and version its object is stored.
func (s *takeoverServer) stored(etcd string) map[string]string {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	must(s.t, err)
	defer c.Close()
	all, err := c.Get(s.t.Context(), "/registry/", clientv3.WithPrefix())
	must(s.t, err)
	out := map[string]string{}
	for _, kv := range all.Kvs {
		var kind metav1.TypeMeta
		if value, ok := bytes.CutPrefix(kv.Value, []byte("k8s\x00")); ok {
			var u runtime.Unknown
			must(s.t, u.Unmarshal(value))
			kind = metav1.TypeMeta{APIVersion: u.APIVersion, Kind: u.Kind}
		} else if bytes.HasPrefix(kv.Value, []byte("{")) {
			must(s.t, json.Unmarshal(kv.Value, &kind))
		}
		out[string(kv.Key)] = fmt.Sprint(kind.APIVersion, " ", kind.Kind)
	}
	if got := out["/registry/namespaces/default"]; got != "v1 Namespace" {
		s.t.Errorf("the namespace default is stored as %s", got)
	}
	return out
}

// storedAs checks that everything that is stored, and was then, is stored in the version that it had.
func (s *takeoverServer) storedAs(etcd string, want map[string]string) {
	s.t.Helper()
	common := 0
	for key, got := range s.stored(etcd) {
		if w, ok := want[key]; ok {
			if common++; got != w {
				s.t.Errorf("%s is stored as %s, and was as %s", key, got, w)
			}
		}
	}
	if common < len(want)/2 {
		s.t.Errorf("%d of %d keys are left", common, len(want))
	}
}
