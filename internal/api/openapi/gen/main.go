// Command gen records the OpenAPI documents of the built-in groups from a running kube-apiserver, and writes them
// compressed, with the field management schemas derived from them:
//
//	data/index.json      hashes of the documents, and where the v2 document can be extended
//	data/v2.json.gz      /openapi/v2; clients receive it gzipped
//	data/v2.pb.gz        the same as protobuf
//	data/v3/PATH.json.zst, data/v3/PATH.pb.zst
//	data/v2/PATH.json.zst  what a version that is not served by default adds to the v2 document
//	data/types.bin       the schemas (see encode.go)
//
// It starts etcd and kube-apiserver from the -peer directory (bench/peer builds them), first with what is served by
// default, then with all versions and gates, then with all versions of the oldest Kubernetes that it emulates. The same server yields the same files.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
)

const (
	v2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

func main() {
	peer := flag.String("peer", "../../../bench/peer/bin", "directory with the kube-apiserver and etcd to start")
	out := flag.String("out", "data", "directory to write")
	flag.Parse()
	if err := run(*peer, *out); err != nil {
		log.Fatal(err)
	}
}

func run(peerDir, out string) error {
	docs, err := recordPeer(peerDir)
	if err != nil {
		return err
	}
	// CBOR would be in every document.
	all, err := recordPeer(peerDir, "--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true,CBORServingAndStorage=false")
	if err != nil {
		return err
	}
	old, err := recordPeer(peerDir, "--emulated-version=1.34", "--runtime-config=api/all=true")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return docs.write(out, all, old)
}

// recordPeer records the documents of a kube-apiserver with these flags.
func recordPeer(dir string, flags ...string) (*documents, error) {
	p, err := startPeer(dir, flags...)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	return (&client{server: p.address, token: p.token}).record()
}

// documents are the recorded documents.
type documents struct {
	v2JSON, v2Proto []byte
	v3JSON, v3Proto map[string][]byte // by path: "apis/apps/v1"
}

// index is data/index.json.
type index struct {
	V2 struct {
		Hash string `json:"hash"`
		// Offsets at which members can be added to "paths" and "definitions" in the JSON.
		PathsEnd       int64 `json:"pathsEnd"`
		DefinitionsEnd int64 `json:"definitionsEnd"`
	} `json:"v2"`
	V3 map[string]string `json:"v3"` // hash by path
	// Optional are the documents of the versions that are not served by default.
	Optional map[string]string `json:"optional"`
	// Versions are those of Kubernetes in the documents, Resources what is in each, by path.
	Versions  map[string]string   `json:"versions"`
	Resources map[string][]string `json:"resources"`
}

// note notes what is in a v3 document.
func (ix *index) note(path string, doc []byte) error {
	var d struct {
		Info  struct{ Version string }
		Paths map[string]struct{}
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return err
	}
	ix.Versions[path] = d.Info.Version
	for p := range d.Paths {
		if _, resource := openapi.ResourceOf(p); resource != "" && !slices.Contains(ix.Resources[path], resource) {
			ix.Resources[path] = append(ix.Resources[path], resource)
		}
	}
	slices.Sort(ix.Resources[path])
	return nil
}

// write writes the documents, and those of the versions that only others have, of the first of them that has one.
func (d *documents) write(out string, others ...*documents) error {
	var ix index
	ix.V2.Hash = hash(d.v2JSON)
	ends, err := memberEnds(d.v2JSON)
	if err != nil {
		return err
	}
	ix.V2.PathsEnd, ix.V2.DefinitionsEnd = ends["paths"], ends["definitions"]
	ix.V3, ix.Optional, ix.Versions, ix.Resources = map[string]string{}, map[string]string{}, map[string]string{}, map[string][]string{}
	files := map[string][]byte{
		"v2.json.gz": gzipped(d.v2JSON),
		"v2.pb.gz":   gzipped(d.v2Proto),
	}
	for path, doc := range d.v3JSON {
		if err := ix.note(path, doc); err != nil {
			return err
		}
		ix.V3[path] = hash(doc)
		files["v3/"+path+".json.zst"] = zstandard(doc)
		files["v3/"+path+".pb.zst"] = zstandard(d.v3Proto[path])
	}
	types := maps.Clone(d.v3JSON)
	for _, other := range others {
		for path, doc := range other.v3JSON {
			if types[path] != nil {
				continue
			}
			types[path] = doc
			if err := ix.note(path, doc); err != nil {
				return err
			}
			ix.Optional[path] = hash(doc)
			files["v3/"+path+".json.zst"] = zstandard(doc)
			files["v3/"+path+".pb.zst"] = zstandard(other.v3Proto[path])
			more, err := fragment(path, other.v2JSON, d.v2JSON)
			if err != nil {
				return err
			}
			files["v2/"+path+".json.zst"] = zstandard(more)
		}
	}
	if files["index.json"], err = json.MarshalIndent(ix, "", "\t"); err != nil {
		return err
	}
	if files["types.bin"], err = encodeTypes(types); err != nil {
		return err
	}
	for name, data := range files {
		name = filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// swagger is what is read of a v2 document.
type swagger struct {
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]json.RawMessage `json:"definitions"`
}

var reference = regexp.MustCompile(`"#/definitions/([^"]+)"`)

// fragment is what the version at a path adds to the v2 document base: its paths, and what they refer to and base lacks.
func fragment(path string, all, base []byte) ([]byte, error) {
	var from, have swagger
	if err := json.Unmarshal(all, &from); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(base, &have); err != nil {
		return nil, err
	}
	out := swagger{map[string]json.RawMessage{}, map[string]json.RawMessage{}}
	var add func(doc []byte)
	add = func(doc []byte) {
		for _, m := range reference.FindAllSubmatch(doc, -1) {
			name := string(m[1])
			if def := from.Definitions[name]; out.Definitions[name] == nil && have.Definitions[name] == nil {
				out.Definitions[name] = def
				add(def)
			}
		}
	}
	group := strings.Count(path, "/") < 2 // its document has one path
	for name, doc := range from.Paths {
		below, ok := strings.CutPrefix(name, "/"+path+"/")
		if ok && !(group && below != "") && have.Paths[name] == nil {
			out.Paths[name] = doc
			add(doc)
		}
	}
	return json.Marshal(out)
}

// hash returns the hash that kube-apiserver uses as a document's ETag.
func hash(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

func zstandard(data []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(8<<20), zstd.WithEncoderCRC(false))
	if err != nil {
		log.Panic(err) // the options are constants
	}
	return w.EncodeAll(data, nil)
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		log.Panic(err) // the level is a constant
	}
	_, _ = w.Write(data) // writing to a Buffer cannot fail
	_ = w.Close()
	return b.Bytes()
}

// memberEnds returns the offset of the closing brace of each member of doc that is an object.
func memberEnds(doc []byte) (map[string]int64, error) {
	ends := map[string]int64{}
	dec := json.NewDecoder(bytes.NewReader(doc))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if value[0] == '{' {
			ends[name.(string)] = dec.InputOffset() - 1
		}
	}
	return ends, nil
}

// record reads every document of the server.
func (c *client) record() (*documents, error) {
	d := &documents{v3JSON: map[string][]byte{}, v3Proto: map[string][]byte{}}
	var err error
	if d.v2JSON, err = c.get("/openapi/v2", "application/json"); err != nil {
		return nil, err
	}
	if d.v2Proto, err = c.get("/openapi/v2", v2Proto); err != nil {
		return nil, err
	}
	root, err := c.get("/openapi/v3", "application/json")
	if err != nil {
		return nil, err
	}
	var ix struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(root, &ix); err != nil {
		return nil, err
	}
	for path, p := range ix.Paths {
		if d.v3JSON[path], err = c.get(p.ServerRelativeURL, "application/json"); err != nil {
			return nil, err
		}
		if d.v3Proto[path], err = c.get(p.ServerRelativeURL, v3Proto); err != nil {
			return nil, err
		}
		if !strings.HasSuffix(p.ServerRelativeURL, hash(d.v3JSON[path])) {
			return nil, fmt.Errorf("the document at %s does not have that hash", p.ServerRelativeURL)
		}
	}
	return d, nil
}

// sortedKeys makes the output independent of map order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
