package openapi_test

import (
	"strings"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
)

// TestParsed replaces each value of a document by each other kind of value. It is parsed or refused.
func TestParsed(t *testing.T) {
	const v2 = `{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{"parameters":[{"$ref":"#/parameters/p"},{"name":"b","in":"body","schema":{"type":"object"}}],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/T"}}}}}},"definitions":{"T":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":{"type":"string"}}},"parameters":{"p":{"name":"x","in":"query","type":"string"}}}`
	const v3 = `{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{"parameters":[{"name":"b","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"OK","content":{"application/json":{"schema":{"$ref":"#/components/schemas/T"}}}}}}}},"components":{"schemas":{"T":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},"additionalProperties":{"type":"string"}}}}}`
	others := []string{`null`, `[7]`, `[]`, `{}`, `7`, `"x"`, `{"a":7}`, `[[]]`, `true`}
	for version, doc := range map[string]string{"v2": v2, "v3": v3} {
		for at := range doc {
			if at == 0 || !strings.ContainsRune(":[,", rune(doc[at-1])) {
				continue
			}
			end := at + valueEnd(doc[at:])
			for _, other := range others {
				changed := []byte(doc[:at] + other + doc[end:])
				if version == "v2" {
					_, _ = openapi.Parsed(changed, openapiv2.ParseDocument)
				} else {
					_, _ = openapi.Parsed(changed, openapiv3.ParseDocument)
				}
			}
		}
	}
	if _, err := openapi.Parsed([]byte(`{"swagger":"2.0","info":{"title":"","version":""},"paths":{"/a":[7]}}`), openapiv2.ParseDocument); err == nil {
		t.Error("a path that is a list is not refused")
	}
}

// valueEnd returns how long the JSON value is with which a text begins.
func valueEnd(text string) int {
	depth, quoted := 0, false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if !quoted && (depth < 0 || depth == 0 && strings.ContainsRune(`,:`, c)) {
			return i
		}
	}
	return len(text)
}
