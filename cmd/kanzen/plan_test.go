package main

import (
	"bytes"
	"strings"
	"testing"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// A plan shows which fields of a secret change, but none of their values, in either form.
func TestPlanOfSecret(t *testing.T) {
	before, err := objectOf([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"b2xk","gone":"Z29uZQ=="}}`))
	if err != nil {
		t.Fatal(err)
	}
	after, err := objectOf([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"bmV3"}},"data":{"password":"bmV3"}}`))
	if err != nil {
		t.Fatal(err)
	}
	o := planned(after, bundlev1.Changed)
	o.Fields = changedFields(before, after)
	p := plan{Objects: []plannedObject{o}}
	var text, document bytes.Buffer
	p.print(&text)
	if err := printJSON(&document, &p); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{text.String(), document.String()} {
		if !strings.Contains(shown, "data.password") || !strings.Contains(shown, "(hidden)") {
			t.Errorf("%s does not say what changes", shown)
		}
		for _, value := range []string{"b2xk", "bmV3", "Z29uZQ"} {
			if strings.Contains(shown, value) {
				t.Errorf("%s has the value %s", shown, value)
			}
		}
	}
}
