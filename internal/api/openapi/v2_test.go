package openapi

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The v2 document is generated once for all clients, compressed or not.
func TestV2IsKept(t *testing.T) {
	base, err := New(time.Now(), every())
	if err != nil {
		t.Fatal(err)
	}
	made, broken := 0, false
	part := Part{V2Hash: "1", V2: func() (*Fragment, error) {
		made++
		if broken {
			return nil, errors.New("not now")
		}
		return &Fragment{Definitions: map[string]json.RawMessage{"test.example.v1.Gizmo": json.RawMessage(`{"type":"object"}`)}}, nil
	}}
	set := base.With(part)
	h := NewHandler(func() *Set { return set }, slog.New(slog.DiscardHandler))
	plain := ask(h, "GET", "/openapi/v2").Body.String()
	if !strings.Contains(plain, "test.example.v1.Gizmo") {
		t.Error("the definition is missing")
	}
	for range 3 {
		packed := ask(h, "GET", "/openapi/v2", "Accept-Encoding", "gzip")
		if doc, err := gunzip(packed.Body.Bytes()); err != nil || string(doc) != plain {
			t.Errorf("the packed document is another one: %v", err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	set, broken = base.With(part), true
	for range 2 {
		if strings.Contains(ask(h, "GET", "/openapi/v2").Body.String(), "test.example.v1.Gizmo") {
			t.Error("the document of another set")
		}
	}
	if made != 3 {
		t.Errorf("a document with a part missing is kept: made %d times", made)
	}
}
