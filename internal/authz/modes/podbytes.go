package modes

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// This file compares pods in protobuf: most changes of a pod are its kubelet's reports of its status, which give its
// node access to nothing. The numbers of the fields are those of k8s.io/api/core/v1/generated.proto.

const (
	podMetadata, podSpec, podStatus = 1, 2, 3
	metadataAnnotations             = 12
	specResourceClaims              = 39
	statusExtendedClaim             = 18
	entryKey                        = 1
)

// podParts is what decides about the access of a node by a pod.
type podParts struct {
	spec   []byte
	mirror bool
	// claims says that there are resource claims, whose names may be in the status.
	claims bool
}

// usesMayDiffer says whether two revisions of a pod may give its node access to different objects.
func usesMayDiffer(was, now []byte) bool {
	a, okA := partsOf(was)
	b, okB := partsOf(now)
	return !okA || !okB || a.claims || b.claims || a.mirror != b.mirror || !bytes.Equal(a.spec, b.spec)
}

// partsOf reads a pod; false: it is not as Kubernetes writes it.
func partsOf(pod []byte) (p podParts, ok bool) {
	once := true
	ok = members(pod, func(number protowire.Number, val []byte) bool {
		switch number {
		case podMetadata:
			return members(val, func(number protowire.Number, val []byte) bool {
				return number != metadataAnnotations || members(val, func(number protowire.Number, val []byte) bool {
					p.mirror = p.mirror || number == entryKey && string(val) == corev1.MirrorPodAnnotationKey
					return true
				})
			})
		case podSpec:
			once = p.spec == nil // a second one would be merged with the first
			p.spec = val
			return members(val, func(number protowire.Number, _ []byte) bool {
				p.claims = p.claims || number == specResourceClaims
				return once
			})
		case podStatus:
			return members(val, func(number protowire.Number, _ []byte) bool {
				p.claims = p.claims || number == statusExtendedClaim
				return true
			})
		}
		return true
	})
	return p, ok
}

// members calls f for each text, message and map entry of a message, until f returns false; members then does, as for a
// message that is malformed.
func members(message []byte, f func(number protowire.Number, val []byte) bool) bool {
	for len(message) > 0 {
		number, form, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, form, message); n < 0 {
			return false
		}
		if form == protowire.BytesType {
			val, _ := protowire.ConsumeBytes(message)
			if !f(number, val) {
				return false
			}
		}
		message = message[n:]
	}
	return true
}
