package modes

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// This file cuts pods in protobuf down to what decides about the access of their nodes: most of a pod gives access to
// nothing, and most of its changes are its kubelet's reports of its status. The numbers of the fields are those of
// k8s.io/api/core/v1/generated.proto.

// fields says which fields of a message are kept, and what of them.
type fields map[protowire.Number]share

// share says what of a field is kept: if below is nil all of it, or what has a text in it.
type share struct {
	below fields
	with  string
}

var (
	// containerFields are envFrom and of env what is not a plain value.
	containerFields = fields{7: {below: fields{3: {}}}, 19: {}}

	podFields = fields{
		// name, namespace, annotations
		1: {below: fields{1: {}, 3: {}, 12: {with: corev1.MirrorPodAnnotationKey}}},
		2: {below: fields{
			1: {}, 8: {}, 10: {}, 15: {}, 39: {}, // volumes, serviceAccountName, nodeName, imagePullSecrets, resourceClaims
			// containers, initContainers, ephemeralContainers
			2: {below: containerFields}, 20: {below: containerFields}, 34: {below: fields{1: {below: containerFields}}},
		}},
		3: {below: fields{15: {}, 18: {}}}, // resourceClaimStatuses, extendedResourceClaimStatus
	}
)

// accessPart returns the part of a pod that decides about the access of its node. A malformed pod is returned whole.
func accessPart(pod []byte) []byte {
	part, ok := appendKept(make([]byte, 0, 512), pod, podFields)
	if !ok {
		return pod
	}
	return part
}

// appendKept appends the fields of a message that are kept. Of those that are kept in part none is left empty, as that
// says the same as none. False: the message is malformed.
func appendKept(dst, message []byte, keep fields) ([]byte, bool) {
	for len(message) > 0 {
		number, form, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, form, message[n:])
		if size < 0 {
			return nil, false
		}
		whole := message[:n+size]
		message = message[n+size:]
		kept, ok := keep[number]
		switch {
		case !ok || kept.with != "" && !bytes.Contains(whole, []byte(kept.with)):
			continue
		case kept.below == nil:
			dst = append(dst, whole...)
			continue
		case form != protowire.BytesType:
			return nil, false
		}
		val, _ := protowire.ConsumeBytes(whole[n:])
		begin := len(dst)
		if dst, ok = appendKept(dst, val, kept.below); !ok {
			return nil, false
		}
		if len(dst) > begin {
			dst = prefixed(dst, begin, number)
		}
	}
	return dst, true
}

// prefixed makes what dst has from begin on a field: it moves it back and puts the field's number and size before it.
func prefixed(dst []byte, begin int, number protowire.Number) []byte {
	size := len(dst) - begin
	var room [20]byte
	head := protowire.AppendVarint(protowire.AppendTag(room[:0], number, protowire.BytesType), uint64(size))
	dst = append(dst, head...)
	copy(dst[begin+len(head):], dst[begin:begin+size])
	copy(dst[begin:], head)
	return dst
}
