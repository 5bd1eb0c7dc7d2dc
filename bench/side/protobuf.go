package side

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Protobuf is the media type of Kubernetes' protobuf.
const Protobuf = "application/vnd.kubernetes.protobuf"

// magic is what every message begins with.
const magic = "k8s\x00"

// Sealed is an object in protobuf, in the envelope that API servers want.
func Sealed(apiVersion, kind string, object interface{ Marshal() ([]byte, error) }) string {
	raw, err := object.Marshal()
	if err != nil {
		panic(err) // it is written to memory
	}
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		panic(err)
	}
	return magic + string(body)
}

// Unseal reads an object from the envelope in which API servers answer.
func Unseal(body []byte, object interface{ Unmarshal([]byte) error }) error {
	raw, ok := bytes.CutPrefix(body, []byte(magic))
	if !ok {
		return fmt.Errorf("no protobuf: %.100q", body)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		return err
	}
	return object.Unmarshal(envelope.Raw)
}
