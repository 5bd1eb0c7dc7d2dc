package planes

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const aConfigMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"default"}}`

// stream is one with keys, in the order in which they are given.
func stream(head transfer.Head, keys ...[2]string) []byte {
	var b bytes.Buffer
	w, err := transfer.NewWriter(&b, head)
	for _, k := range keys {
		if err == nil {
			err = w.Put(&transfer.Key{KeyValue: kv.KeyValue{Key: []byte(k[0]), Value: []byte(k[1]), CreateRevision: 1, ModRevision: 1, Version: 1}})
		}
	}
	if err == nil {
		err = w.End()
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Whatever a stream has is refused in one line, changes nothing outside of the plane, and leaves nothing in it.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	g := start(t, settings(t.TempDir()))
	p := g.create(t, "victim", PlaneSpec{})
	g.must(t, "victim", "POST", configMaps, `{"metadata":{"name":"c"},"data":{"a":"b"}}`, nil)
	if err := g.tryCreate(t, "hostile", PlaneSpec{Imported: true}); err != nil {
		t.Fatal(err)
	}
	one := transfer.Head{Revision: 1}
	const key = "configmaps/default/c"
	whole := stream(one, [2]string{key, aConfigMap})
	named := func(name string) string { return strings.ReplaceAll(aConfigMap, `"c"`, fmt.Sprintf("%q", name)) }
	all := map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "a web page": []byte("<html>"), "cut off": whole[:len(whole)-1],
		"keys twice":              stream(one, [2]string{key, aConfigMap}, [2]string{key, aConfigMap}),
		"keys out of order":       stream(one, [2]string{key, aConfigMap}, [2]string{"configmaps/default/b", named("b")}),
		"revision 0":              stream(transfer.Head{}),
		"revision -1":             stream(transfer.Head{Revision: -1}),
		"revision beyond all":     stream(transfer.Head{Revision: 1<<63 - 1}, [2]string{key, aConfigMap}),
		"keys that are none":      stream(transfer.Head{Revision: 1, Keys: map[string][]byte{"ca.crt": []byte("x"), "../../etc/passwd": []byte("x")}}, [2]string{key, aConfigMap}),
		"another kind":            stream(one, [2]string{"secrets/default/c", aConfigMap}),
		"another name":            stream(one, [2]string{"configmaps/default/d", aConfigMap}),
		"no object":               stream(one, [2]string{key, "garbage"}),
		"an empty object":         stream(one, [2]string{key, ""}),
		"half a protobuf":         stream(one, [2]string{key, "k8s\x00\x0a\xff\xff\xff\xff\x0f"}),
		"encrypted":               stream(one, [2]string{key, "k8s:enc:aesgcm:v1:k:xxxxxxxxxxxxxxxxxxxxxxxx"}),
		"deep":                    stream(one, [2]string{"example.com/widgets/default/c", strings.Repeat(`{"a":`, 200000)}),
		"another custom kind":     stream(one, [2]string{"example.com/widgets/default/c", `{"kind":"Widget","apiVersion":"other.com/v1","metadata":{"name":"c","namespace":"default"}}`}),
		"more than can be stored": stream(one, [2]string{key, strings.Replace(aConfigMap, `}}`, `},"data":{"a":"`+strings.Repeat("x", 9<<20)+`"}}`, 1)}),
		"a mark":                  stream(one, [2]string{key + "\x00", named("c\x00")}),
		"a length without bytes":  append([]byte("kanzen plane 1\n\x0e{\"revision\":1}"), binary.AppendUvarint(nil, 1<<62)...),
	}
	for _, at := range []string{"", "/", "x", "a/b", "configmaps", "configmaps/default", "configmaps//c", "configmaps/default/c/", "/configmaps/default/c", "../" + string(p.UID) + "/" + key,
		"configmaps/../../" + string(p.UID) + "/" + key, "configmaps/default/..", "configmaps/default/%2e", "masterleases/10.0.0.1", "ranges/serviceips", "compact_rev_key", "registry/" + key,
		"/registry/" + key, "kanzen/imports/x", "leases/kube-system/apiserver-x", "peerserverleases/x", "configmaps/default/c\n", "\xff\xfe", "configmaps/\xff/c", strings.Repeat("a", 3000)} {
		all["the key "+at] = stream(one, [2]string{at, aConfigMap})
	}
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for n := range 300 { // bytes that are not what they were
		b := bytes.Clone(stream(one, [2]string{key, aConfigMap}, [2]string{"configmaps/default/d", named("d")}))
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		all[fmt.Sprint("broken ", n)] = b
	}
	before := g.everything(t, "victim")
	broken := func(what string) int {
		if strings.HasPrefix(what, "broken") { // the last ones: some are streams all the same, and the first that is one makes the plane
			return 1
		}
		return 0
	}
	for _, what := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(broken(a)-broken(b), strings.Compare(a, b)) }) {
		b := all[what]
		_, err := g.client().Import(t.Context(), "hostile", func(to io.Writer) error { _, err := to.Write(b); return err })
		if broken(what) > 0 && (err == nil || apierrors.IsConflict(err)) {
			continue
		}
		code := int32(0)
		if s, ok := err.(apierrors.APIStatus); ok {
			code = s.Status().Code
		}
		if code < 400 || code >= 500 || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
			t.Errorf("%.100s: %d %.1000v (%s)", what, code, err, base64.StdEncoding.EncodeToString(b[:min(len(b), 300)]))
		}
		if n, _, err := g.usage(t.Context(), g.find("hostile").prefix()); (err != nil || n > 0) && !g.find("hostile").isMade() {
			t.Errorf("%.100s: %d keys are left: %v", what, n, err)
		}
	}
	sameObjects(t, g.everything(t, "victim"), before)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if err := g.root.Do(t.Context(), method, planesPath+"/victim/import", "application/json", map[string]any{}, nil); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: %v", method, err)
		}
	}
}
