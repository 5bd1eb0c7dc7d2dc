//go:build linux

package main

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestFields(t *testing.T) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 300)
	for _, text := range []string{"a", ""} {
		message = appendField(message, 2, []byte(text))
	}
	message = appendField(message, 4, []byte("other"))
	values, err := fields(message, 2)
	if err != nil || len(values) != 2 || !slices.Equal(values[0], []byte("a")) || len(values[1]) != 0 {
		t.Errorf("%q, %v", values, err)
	}
	if _, err := fields(message[:len(message)-1], 2); err == nil {
		t.Error("half a message is read")
	}
}
