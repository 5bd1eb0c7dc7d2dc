package openapi

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed data/index.json data/v2.* all:data/v2 all:data/v3
var data embed.FS

// recorded is data/index.json.
type recorded struct {
	V2 struct {
		Hash                     string
		PathsEnd, DefinitionsEnd int
	}
	V3 map[string]string // hash by path
	// Optional is the same for versions that are not served by default.
	Optional map[string]string

	// decoder is expensive to create; it is safe for concurrent use and keeps no data between calls.
	decoder func() (*zstd.Decoder, error)
}

func readIndex() (*recorded, error) {
	b, err := data.ReadFile("data/index.json")
	if err != nil {
		return nil, err
	}
	ix := &recorded{decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	})}
	if err := json.Unmarshal(b, ix); err != nil {
		return nil, fmt.Errorf("index of the embedded documents: %w", err)
	}
	return ix, nil
}

// builtinDocuments returns the embedded v3 documents of what is served by default.
func (ix *recorded) builtinDocuments(at time.Time) []Document {
	docs := make([]Document, 0, len(ix.V3))
	for path, hash := range ix.V3 {
		docs = append(docs, ix.document(path, hash, at))
	}
	return docs
}

func (ix *recorded) document(path, hash string, at time.Time) Document {
	return Document{
		Path: path, Hash: hash, Modified: at,
		JSON:  func() ([]byte, error) { return ix.unpack("v3/" + path + ".json.zst") },
		Proto: func() ([]byte, error) { return ix.unpack("v3/" + path + ".pb.zst") },
	}
}

// optional are the embedded documents of versions that are not served by default, of those that are served.
func (ix *recorded) optional(at time.Time, served func(path string) bool) []Part {
	var parts []Part
	for _, path := range slices.Sorted(maps.Keys(ix.Optional)) {
		if served == nil || !served(path) {
			continue
		}
		hash := ix.Optional[path]
		parts = append(parts, Part{Documents: []Document{ix.document(path, hash, at)}, V2Hash: hash, V2: func() (*Fragment, error) {
			b, err := ix.unpack("v2/" + path + ".json.zst")
			if err != nil {
				return nil, err
			}
			var f Fragment
			return &f, json.Unmarshal(b, &f)
		}})
	}
	return parts
}

func (ix *recorded) unpack(name string) ([]byte, error) {
	packed, err := data.ReadFile("data/" + name)
	if err != nil {
		return nil, err
	}
	d, err := ix.decoder()
	if err != nil {
		return nil, err
	}
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	return b, nil
}

func gunzip(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
