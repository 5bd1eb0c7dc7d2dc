package main

import (
	"bytes"
	"testing"
)

// What an extension server or a controller has written cannot move the cursor of who reads it.
func TestNoControlCharactersAreShown(t *testing.T) {
	var out bytes.Buffer
	d := &doctor{}
	d.say(bad, "APIServices", "", "%s is not available: %s", "v1.bad.test", "\x1b[2J\x9b1A\u009b\r all is well\x07 → été")
	d.print(&out)
	if bytes.ContainsAny(out.Bytes(), "\x1b\r\x07\u009b") || !bytes.Contains(out.Bytes(), []byte(`\r all is well\a → été`)) {
		t.Errorf("%q", out.String())
	}
}
