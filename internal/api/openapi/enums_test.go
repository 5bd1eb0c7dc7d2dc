package openapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestPruneEnums(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"none", `{"type":"string"}`, `{"type":"string"}`},
		{"values", `{"type":"string","enum":["a"],"description":"What.\n\nPossible enum values:\n - a"}`, `{"description":"What.","type":"string"}`},
		{"a property of that name", `{"properties":{"enum":{"enum":["a"],"type":"string"}}}`, `{"properties":{"enum":{"type":"string"}}}`},
		{"in a list", `{"items":{"enum":["a"]}}`, `{"items":{}}`},
		{"in a map", `{"additionalProperties":{"enum":["a"]}}`, `{"additionalProperties":{}}`},
		{"beside anything", `{"additionalProperties":true,"enum":["a"]}`, `{"additionalProperties":true}`},
		{"in a choice", `{"allOf":[{"enum":["a"]}],"default":"a"}`, `{"allOf":[{}],"default":"a"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(must(t)(pruneEnums(json.RawMessage(c.schema)))); got != c.want {
				t.Errorf("got %s, not %s", got, c.want)
			}
		})
	}
}

// No document lists values, and every document that could has another hash.
func TestNoEnums(t *testing.T) {
	whole, served := newSet(t), every()
	served.NoEnums = true
	s, err := New(time.Time{}, served)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := s.Document("apis/batch/v1")
	if w, _ := whole.Document("apis/batch/v1"); w.Hash == d.Hash || whole.v2Hash == s.v2Hash {
		t.Error("other documents have the same hashes")
	}
	for name, docs := range map[string][2]string{
		"v3": {string(must(t)(s.ix.unpack("v3/apis/batch/v1.json.zst"))), string(must(t)(d.JSON()))},
		"v2": {string(must(t)(whole.v2(false))), string(must(t)(s.v2(false)))},
	} {
		const lists = `"enum":[`
		if !strings.Contains(docs[0], lists) || !strings.Contains(docs[0], enumHeader) {
			t.Errorf("%s: there is nothing to take away", name)
		}
		if strings.Contains(docs[1], lists) || strings.Contains(docs[1], enumHeader) {
			t.Errorf("%s still lists values", name)
		}
	}
}
