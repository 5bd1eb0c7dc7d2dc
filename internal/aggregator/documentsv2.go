package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kanzen-io/kanzen/internal/openapi"
)

// fetchV2 fetches the v2 document, and divides it into the parts of groups and versions.
func (b *backend) fetchV2(ctx context.Context, services []*service, next *documents) error {
	header := http.Header{"Accept": {"application/json"}}
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
		next.v2, next.v2Tag = nil, ""
		return nil
	case answer.code != http.StatusOK:
		return fmt.Errorf("/openapi/v2: status %d", answer.code)
	}
	var whole openapi.Fragment
	if err := json.Unmarshal(answer.body, &whole); err != nil {
		return fmt.Errorf("/openapi/v2: %w", err)
	}
	next.v2, next.v2Tag = map[schema.GroupVersion]packed{}, answer.header.Get("Etag")
	var failed error
	for _, v := range services {
		part := partOfV2(v.GroupVersion, &whole)
		if len(part.Paths) == 0 {
			continue
		}
		data, err := json.Marshal(struct {
			Paths       map[string]json.RawMessage `json:"paths"`
			Definitions map[string]json.RawMessage `json:"definitions"`
		}{part.Paths, part.Definitions})
		if err == nil {
			err = checkV2(data)
		}
		if err != nil {
			failed = fmt.Errorf("/openapi/v2: %s: %w", v.GroupVersion, err)
			continue
		}
		next.v2[v.GroupVersion] = pack(data, "")
	}
	return failed
}

// partOfV2 returns the paths of a group and version, and the definitions that they refer to.
func partOfV2(gv schema.GroupVersion, whole *openapi.Fragment) *openapi.Fragment {
	out := &openapi.Fragment{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}}
	var pending []string
	for path, item := range whole.Paths {
		if strings.HasPrefix(path, pathOf(gv)+"/") {
			out.Paths[path] = item
			pending = append(pending, references(item)...)
		}
	}
	for len(pending) > 0 {
		name := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, known := out.Definitions[name]; known {
			continue
		}
		if d, ok := whole.Definitions[name]; ok {
			out.Definitions[name] = d
			pending = append(pending, references(d)...)
		}
	}
	return out
}

// references returns the names of the definitions that a part of a document refers to.
func references(data []byte) []string {
	const prefix = `"#/definitions/`
	var out []string
	for {
		_, rest, ok := bytes.Cut(data, []byte(prefix))
		if !ok {
			return out
		}
		name, rest, _ := bytes.Cut(rest, []byte(`"`))
		out = append(out, string(name))
		data = rest
	}
}

// checkV2 returns an error for what would make the merged document unreadable.
func checkV2(part []byte) error {
	doc := append([]byte(`{"swagger":"2.0","info":{"title":"","version":""},`), part[1:]...)
	_, err := openapiv2.ParseDocument(doc)
	return err
}

// convertAll makes v3 documents of the v2 parts.
func convertAll(services []*service, next *documents) error {
	next.v3 = map[schema.GroupVersion]packed{}
	for _, v := range services {
		part, ok := next.v2[v.GroupVersion]
		if !ok {
			continue
		}
		data, err := part.unpack()
		if err != nil {
			return err
		}
		if data, err = convert(data); err != nil {
			return fmt.Errorf("OpenAPI of %s: %w", v.GroupVersion, err)
		}
		next.v3[v.GroupVersion] = pack(data, "")
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
