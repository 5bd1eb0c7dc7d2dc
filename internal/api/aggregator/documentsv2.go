package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

const (
	// maxPart bounds the part of a group and version in the v2 document, in bytes, and maxParts is how many times the bounds of
	// one part all parts of a backend may have together.
	maxPart, maxParts = 4 << 20, 4
	// maxDefinitions bounds the definitions of a backend's v2 document.
	maxDefinitions = 100_000
)

// fetchV2 fetches the v2 document, and divides it into the parts of groups and versions. This is done for one backend at a
// time, because the document is large, and only if it is another one than the last.
func (b *backend) fetchV2(ctx context.Context, services []*service, next *documents) error {
	select {
	case b.server.v2 <- struct{}{}:
		defer func() { <-b.server.v2 }()
	case <-ctx.Done():
		return ctx.Err()
	}
	header, names := http.Header{"Accept": {"application/json"}}, namesOf(services)
	if next.v2Names != names {
		next.v2Tag, next.v2Hash = "", "" // the last document may have parts that nobody wanted then
	}
	if next.v2Tag != "" {
		header.Set("If-None-Match", next.v2Tag)
	}
	answer, err := b.get(ctx, "/openapi/v2", header, documentTimeout, maxV2)
	switch {
	case err != nil:
		return err
	case answer.code == http.StatusNotModified && next.v2Tag != "":
		return nil
	case answer.code == http.StatusNotFound:
		next.v2, next.v2Tag, next.v2Hash = nil, "", ""
		return nil
	case answer.code != http.StatusOK:
		return fmt.Errorf("/openapi/v2: status %d", answer.code)
	}
	next.v2Tag, next.v2Names = answer.header.Get("Etag"), names
	hash := hashOf(answer.body)
	if hash == next.v2Hash {
		return nil
	}
	defer next.spend(b.server.Clock)()
	next.v2Hash = hash
	next.v2, err = packV2(answer.body, services, next.v2)
	return err
}

// namesOf returns the groups and versions of services as one text.
func namesOf(services []*service) string {
	var names strings.Builder
	for _, v := range services {
		fmt.Fprintln(&names, v.GroupVersion)
	}
	return names.String()
}

// packV2 divides a v2 document. It keeps what it has packed before, and leaves out a part that is too large or wrong: it then
// returns the others together with an error.
func packV2(doc []byte, services []*service, before map[schema.GroupVersion]packed) (map[schema.GroupVersion]packed, error) {
	whole, err := readV2(doc, services)
	if err != nil {
		return nil, fmt.Errorf("/openapi/v2: %w", err)
	}
	left := room{bytes: maxParts * maxPart, values: maxParts * maxValues}
	out := map[schema.GroupVersion]packed{}
	var failed error
	for _, v := range services {
		if len(whole.paths[v.GroupVersion]) == 0 {
			continue
		}
		p, err := packPart(whole, v.GroupVersion, &left, before[v.GroupVersion])
		if err != nil {
			failed = fmt.Errorf("/openapi/v2: %s: %w", v.GroupVersion, err)
			continue
		}
		out[v.GroupVersion] = p
	}
	return out, failed
}

// v2 is a v2 document, not decoded: the paths of groups and versions that are wanted, and all definitions.
type v2 struct {
	paths       map[schema.GroupVersion]map[string]json.RawMessage
	definitions map[string]json.RawMessage
}

// readV2 finds the paths and definitions in a document.
func readV2(doc []byte, services []*service) (*v2, error) {
	if !json.Valid(doc) {
		return nil, errContent
	}
	out := &v2{paths: map[schema.GroupVersion]map[string]json.RawMessage{}, definitions: map[string]json.RawMessage{}}
	for _, v := range services {
		out.paths[v.GroupVersion] = map[string]json.RawMessage{}
	}
	jsonobject.Members(jsonobject.Find(doc, "paths"), func(name, item []byte) {
		path := nameOf(name)
		if paths := out.paths[groupVersionOf(path)]; paths != nil && len(paths) < maxValues {
			paths[path] = item
		}
	})
	jsonobject.Members(jsonobject.Find(doc, "definitions"), func(name, item []byte) {
		if len(out.definitions) <= maxDefinitions {
			out.definitions[nameOf(name)] = item
		}
	})
	if len(out.definitions) > maxDefinitions {
		return nil, fmt.Errorf("%w: more than %d definitions", errTooMany, maxDefinitions)
	}
	return out, nil
}

// nameOf returns the text of a member's name.
func nameOf(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var name string
	_ = json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &name) // it is valid
	return name
}

// groupVersionOf returns the group and version whose resource a path names.
func groupVersionOf(path string) schema.GroupVersion {
	var gv schema.GroupVersion
	rest, ok := strings.CutPrefix(path, "/apis/")
	if ok {
		gv.Group, rest, _ = strings.Cut(rest, "/")
	} else if rest, ok = strings.CutPrefix(path, "/api/"); !ok {
		return gv
	}
	if gv.Version, _, ok = strings.Cut(rest, "/"); !ok {
		return schema.GroupVersion{}
	}
	return gv
}

// packPart packs the part of a group and version, unless it is what it was before.
func packPart(whole *v2, gv schema.GroupVersion, left *room, before packed) (packed, error) {
	paths := whole.paths[gv]
	definitions, err := whole.referred(paths, left)
	if err != nil {
		return packed{}, err
	}
	data, err := json.Marshal(struct {
		Paths       map[string]json.RawMessage `json:"paths"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}{paths, definitions})
	if err != nil {
		return packed{}, err
	}
	hash := hashOf(data)
	if before.hash == hash {
		return before, nil
	}
	if err := checkV2(data); err != nil {
		return packed{}, err
	}
	return pack(data, hash, ""), nil
}

// referred returns the definitions to which paths refer, directly or not, and takes both from what is left.
func (d *v2) referred(paths map[string]json.RawMessage, left *room) (map[string]json.RawMessage, error) {
	given := room{bytes: min(maxPart, left.bytes), values: min(maxValues, left.values)}
	part := given
	defer func() {
		left.bytes -= given.bytes - part.bytes
		left.values -= given.values - part.values
	}()
	out := map[string]json.RawMessage{}
	var pending []json.RawMessage
	for _, item := range paths {
		if err := part.take(item); err != nil {
			return nil, err
		}
		pending = append(pending, item)
	}
	var failed error
	for len(pending) > 0 && failed == nil {
		last := len(pending) - 1
		from := pending[last]
		pending = pending[:last]
		references(from, func(name []byte) bool {
			definition, ok := d.definitions[string(name)]
			if _, known := out[string(name)]; known || !ok {
				return true
			}
			if failed = part.take(definition); failed != nil {
				return false
			}
			out[string(name)] = definition
			pending = append(pending, definition)
			return true
		})
	}
	return out, failed
}

// references calls each with the names of the definitions to which a part of a document refers, until it returns false.
func references(data []byte, each func(name []byte) bool) {
	const prefix = `"#/definitions/`
	for {
		_, rest, ok := bytes.Cut(data, []byte(prefix))
		if !ok {
			return
		}
		name, rest, _ := bytes.Cut(rest, []byte(`"`))
		if !each(name) {
			return
		}
		data = rest
	}
}

// checkV2 returns an error for what would make the merged document unreadable.
func checkV2(part []byte) error {
	doc := append([]byte(`{"swagger":"2.0","info":{"title":"","version":""},`), part[1:]...)
	_, err := openapi.Parsed(doc, openapiv2.ParseDocument)
	return err
}

// convertAll makes v3 documents of the v2 parts, as far as those have changed.
func (b *backend) convertAll(services []*service, next *documents) error {
	before := next.v3
	next.v3 = map[schema.GroupVersion]packed{}
	for _, v := range services {
		part, ok := next.v2[v.GroupVersion]
		if !ok {
			continue
		}
		source := "v2 " + part.hash
		if p := before[v.GroupVersion]; p.source == source {
			next.v3[v.GroupVersion] = p
			continue
		}
		done := next.spend(b.server.Clock)
		data, err := part.unpack()
		if err == nil {
			data, err = openapi.Parsed(data, convert)
		}
		done()
		if err != nil {
			return fmt.Errorf("OpenAPI of %s: %w", v.GroupVersion, err)
		}
		next.v3[v.GroupVersion] = pack(data, hashOf(data), source)
	}
	return nil
}

func convert(part []byte) ([]byte, error) {
	v2 := &spec.Swagger{}
	if err := json.Unmarshal(part, v2); err != nil {
		return nil, err
	}
	v2.Info = &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "unversioned"}}
	return json.Marshal(openapiconv.ConvertV2ToV3(v2))
}
