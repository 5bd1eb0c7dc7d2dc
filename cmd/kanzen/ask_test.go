package main

import (
	"bytes"
	"testing"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// What an extension server or a controller has written cannot move the cursor of who reads it.
func TestNoControlCharactersAreShown(t *testing.T) {
	var out bytes.Buffer
	d := &diagnosis{}
	d.say("APIServiceAway", v1alpha1.SeverityError, "\x1b[2J\x9b1A\u009b\r all is well\x07 → été", "", "%s is not available", "v1.bad.test")
	d.print(&out)
	if bytes.ContainsAny(out.Bytes(), "\x1b\r\x07\u009b") || !bytes.Contains(out.Bytes(), []byte(`\r all is well\a → été`)) {
		t.Errorf("%q", out.String())
	}
}
