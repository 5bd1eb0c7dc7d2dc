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
	// Versions are those of Kubernetes in the documents, and Resources what is in them (see Served), by path.
	Versions  map[string]string
	Resources map[string][]string
	// Optional is the same for versions that are not served by default.
	Optional map[string]string

	// decoder is expensive to create; it is safe for concurrent use and keeps no data between calls.
	decoder func() (*zstd.Decoder, error)
}

// readIndex reads the index, which all sets of a process share: it does not change.
var readIndex = sync.OnceValues(func() (*recorded, error) {
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
})

// recordedDocument returns an embedded v3 document, without what is not served.
func (s *Set) recordedDocument(path, hash string) Document {
	d := Document{
		Path: path, Hash: hash, Modified: s.at,
		JSON:  func() ([]byte, error) { return s.ix.unpack("v3/" + path + ".json.zst") },
		Proto: func() ([]byte, error) { return s.ix.unpack("v3/" + path + ".pb.zst") },
	}
	if s.narrows(path) {
		return s.narrowed(d)
	}
	return d
}

// optional are the embedded documents of versions that are not served by default, of those that are served.
func (s *Set) optional() []Part {
	var parts []Part
	for _, path := range slices.Sorted(maps.Keys(s.ix.Optional)) {
		if s.served.Resources == nil || !s.served.document(path) {
			continue
		}
		d := s.recordedDocument(path, s.ix.Optional[path])
		parts = append(parts, Part{recorded: true, Documents: []Document{d}, V2Hash: d.Hash, V2: func() (*Fragment, error) {
			b, err := s.ix.unpack("v2/" + path + ".json.zst")
			if err != nil {
				return nil, err
			}
			var f Fragment
			if err := json.Unmarshal(b, &f); err != nil {
				return nil, err
			}
			s.served.narrow(&info{}, f.Paths)
			if s.served.NoEnums {
				err = withoutEnums(f.Definitions)
			}
			return &f, err
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
