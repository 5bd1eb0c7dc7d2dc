// Command gen records the OpenAPI documents of the built-in groups from a running kube-apiserver, and writes them
// compressed, with the field management schemas derived from them:
//
//	data/index.json      hashes of the documents, and where the v2 document can be extended
//	data/v2.json.gz      /openapi/v2; clients receive it gzipped
//	data/v2.pb.gz        the same as protobuf
//	data/v3/PATH.json.zst, data/v3/PATH.pb.zst
//	data/types.bin       the schemas (see encode.go)
//
// The same server yields the same files. Without -server it starts etcd and kube-apiserver from the -peer directory
// (bench/peer builds them).
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	v2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

func main() {
	server := flag.String("server", "", "address of a kube-apiserver with no CRDs and no APIServices of others; empty: start one")
	token := flag.String("token", "", "bearer token for -server")
	peer := flag.String("peer", "../../bench/peer/bin", "directory with the kube-apiserver and etcd to start")
	out := flag.String("out", "data", "directory to write")
	flag.Parse()
	if err := run(*server, *token, *peer, *out); err != nil {
		log.Fatal(err)
	}
}

func run(server, token, peerDir, out string) error {
	if server == "" {
		p, err := startPeer(peerDir)
		if err != nil {
			return err
		}
		defer p.stop()
		server, token = p.address, p.token
	}
	c := &client{server: server, token: token}
	docs, err := c.record()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return docs.write(out)
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
}

func (d *documents) write(out string) error {
	var ix index
	ix.V2.Hash = hash(d.v2JSON)
	ends, err := memberEnds(d.v2JSON)
	if err != nil {
		return err
	}
	ix.V2.PathsEnd, ix.V2.DefinitionsEnd = ends["paths"], ends["definitions"]
	ix.V3 = map[string]string{}
	files := map[string][]byte{
		"v2.json.gz": gzipped(d.v2JSON),
		"v2.pb.gz":   gzipped(d.v2Proto),
	}
	for path, doc := range d.v3JSON {
		ix.V3[path] = hash(doc)
		files["v3/"+path+".json.zst"] = zstandard(doc)
		files["v3/"+path+".pb.zst"] = zstandard(d.v3Proto[path])
	}
	if files["index.json"], err = json.MarshalIndent(ix, "", "\t"); err != nil {
		return err
	}
	if files["types.bin"], err = encodeTypes(d.v3JSON); err != nil {
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
