package aggregator

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
)

// How OpenAPI documents are fetched.
const (
	documentsEvery  = time.Minute
	documentTimeout = 30 * time.Second
	// maxDocument bounds one OpenAPI v3 document, maxIndex their index, maxV2 the v2 document of a backend, in bytes.
	maxDocument, maxIndex, maxV2 = 8 << 20, 1 << 20, 32 << 20
	// maxKept bounds what is kept of a backend's documents, compressed, in bytes.
	maxKept = 16 << 20
)

// restFor is for how many times the duration of decoding a backend's documents are not asked for again: whatever they are,
// decoding them takes no more than a twentieth of one processor.
const restFor = 20

// documents are the OpenAPI documents of a backend. The maps are replaced, never changed.
type documents struct {
	v3 map[schema.GroupVersion]packed
	v2 map[schema.GroupVersion]packed
	// v2Tag and v2Hash identify the last v2 document, which was divided for the groups and versions v2Names.
	v2Tag, v2Hash, v2Names string
	// restUntil is when they may be asked for again.
	restUntil time.Time
}

// spend returns a func to be called when decoding has ended that begins now.
func (d *documents) spend(clk clock.PassiveClock) func() {
	began := clk.Now()
	return func() {
		now := clk.Now()
		d.restUntil = now.Add(max(0, d.restUntil.Sub(now)) + restFor*now.Sub(began))
	}
}

// packed is a compressed document. hash identifies its content, source is what the backend calls this version of it.
type packed struct {
	gzip         []byte
	hash, source string
}

func hashOf(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

func pack(data []byte, hash, source string) packed {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data) // into memory
	_ = z.Close()
	return packed{gzip: b.Bytes(), hash: hash, source: source}
}

func (p packed) unpack() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p.gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// fetch fetches the OpenAPI documents of the backend that have changed.
func (b *backend) fetch(ctx context.Context) error {
	services := b.all()
	if !slices.ContainsFunc(services, (*service).isAvailable) {
		return nil // the last documents stay
	}
	if b.server.Clock.Now().Before(b.documents.restUntil) {
		return nil
	}
	next := b.documents
	next.v3, next.v2 = maps.Clone(next.v3), maps.Clone(next.v2)
	errV2 := b.fetchV2(ctx, services, &next)
	errV3 := b.fetchV3(ctx, services, &next)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	next.bound(services)
	b.server.mu.Lock()
	changed := !equalHashes(next.v3, b.documents.v3) || !equalHashes(next.v2, b.documents.v2)
	b.documents = next
	b.server.mu.Unlock()
	if changed {
		b.server.documents.Add(1)
	}
	return errors.Join(errV2, errV3)
}

func equalHashes(a, b map[schema.GroupVersion]packed) bool {
	return maps.EqualFunc(a, b, func(x, y packed) bool { return x.hash == y.hash })
}

// bound drops the documents of groups and versions that have left, and those for which there is no room.
func (d *documents) bound(services []*service) {
	left, v3, v2 := maxKept, map[schema.GroupVersion]packed{}, map[schema.GroupVersion]packed{}
	for _, v := range services {
		for _, m := range []struct {
			from, to map[schema.GroupVersion]packed
		}{{d.v3, v3}, {d.v2, v2}} {
			if p, ok := m.from[v.GroupVersion]; ok && len(p.gzip) <= left {
				left -= len(p.gzip)
				m.to[v.GroupVersion] = p
			}
		}
	}
	d.v3, d.v2 = v3, v2
}

// root is the index of OpenAPI v3 documents.
type root struct {
	Paths map[string]struct {
		URL string `json:"serverRelativeURL"`
	} `json:"paths"`
}

// fetchV3 fetches the v3 documents, or makes them of the v2 document if the backend has none.
func (b *backend) fetchV3(ctx context.Context, services []*service, next *documents) error {
	answer, err := b.get(ctx, "/openapi/v3", http.Header{"Accept": {"application/json, */*"}}, fetchTimeout, maxIndex)
	if err != nil {
		return err
	}
	if answer.code == http.StatusNotFound {
		return b.convertAll(services, next)
	}
	if answer.code != http.StatusOK {
		return fmt.Errorf("/openapi/v3: status %d", answer.code)
	}
	if err := bounded(answer.body); err != nil {
		return fmt.Errorf("/openapi/v3: %w", err)
	}
	var index root
	if err := json.Unmarshal(answer.body, &index); err != nil {
		return fmt.Errorf("/openapi/v3: %w", err)
	}
	if next.v3 == nil {
		next.v3 = map[schema.GroupVersion]packed{}
	}
	var failed error
	for _, v := range services {
		path := pathOf(v.GroupVersion)[1:]
		entry, ok := index.Paths[path]
		if !ok {
			delete(next.v3, v.GroupVersion)
			continue
		}
		if p, have := next.v3[v.GroupVersion]; have && p.source == entry.URL {
			continue
		}
		p, err := b.fetchDocument(ctx, v.GroupVersion, entry.URL, next)
		if err != nil {
			failed = err
			if ctx.Err() != nil || !errors.Is(err, errContent) {
				return err // the others would not be answered either
			}
			continue
		}
		next.v3[v.GroupVersion] = p
	}
	return failed
}

var errContent = errors.New("not an OpenAPI document")

// fetchDocument fetches one v3 document, or returns the one in next if it is the same. at is its URL in the index: only its
// hash counts.
func (b *backend) fetchDocument(ctx context.Context, gv schema.GroupVersion, at string, next *documents) (packed, error) {
	path, have := pathOf(gv)[1:], next.v3[gv]
	target := url.URL{Path: "/openapi/v3/" + path}
	if u, err := url.Parse(at); err == nil && u.Query().Get("hash") != "" {
		target.RawQuery = url.Values{"hash": {u.Query().Get("hash")}}.Encode()
	} else {
		at = "" // without a hash it may have changed at any time
	}
	answer, err := b.get(ctx, target.String(), http.Header{"Accept": {"application/json"}}, documentTimeout, maxDocument)
	if err != nil {
		return packed{}, err
	}
	if answer.code != http.StatusOK {
		return packed{}, fmt.Errorf("/openapi/v3/%s: %w: status %d", path, errContent, answer.code)
	}
	if at == "" {
		at = "unknown"
	}
	defer next.spend(b.server.Clock)()
	hash := hashOf(answer.body)
	if hash == have.hash {
		have.source = at
		return have, nil
	}
	if err := bounded(answer.body); err != nil {
		return packed{}, fmt.Errorf("/openapi/v3/%s: %w: %w", path, errContent, err)
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
	}
	if err := json.Unmarshal(answer.body, &doc); err != nil || doc.OpenAPI == "" {
		return packed{}, fmt.Errorf("/openapi/v3/%s: %w", path, errContent)
	}
	return pack(answer.body, hash, at), nil
}

// OpenAPI returns the parts that extension servers add to the OpenAPI documents.
func (s *Server) OpenAPI() []openapi.Part {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var parts []openapi.Part
	for _, v := range s.services {
		if v.backend == nil {
			continue
		}
		if part, ok := partOf(v.GroupVersion, &v.backend.documents); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// partOf returns the part of a group and version.
func partOf(gv schema.GroupVersion, d *documents) (openapi.Part, bool) {
	var part openapi.Part
	doc, hasV3 := d.v3[gv]
	if hasV3 {
		part.Documents = []openapi.Document{{Path: pathOf(gv)[1:], Hash: doc.hash, JSON: doc.unpack}}
	}
	fragment, hasV2 := d.v2[gv]
	if hasV2 {
		part.V2Hash = fragment.hash
		part.V2 = func() (*openapi.Fragment, error) {
			data, err := fragment.unpack()
			if err != nil {
				return nil, err
			}
			f := &openapi.Fragment{}
			return f, json.Unmarshal(data, f)
		}
	}
	return part, hasV2 || hasV3
}

// DocumentChanges returns how often OpenAPI documents have changed.
func (s *Server) DocumentChanges() int64 { return s.documents.Load() }
