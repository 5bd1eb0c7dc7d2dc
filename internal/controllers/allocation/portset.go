package allocation

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// portRange is size ports, beginning at first.
type portRange struct{ first, size int32 }

// String formats the range as it is stored.
func (r portRange) String() string { return fmt.Sprintf("%d-%d", r.first, r.first+r.size-1) }

func (r portRange) contains(port int32) bool { return port >= r.first && port-r.first < r.size }

func parsePortRange(s string) (portRange, error) {
	var first, last int32
	if _, err := fmt.Sscanf(s, "%d-%d", &first, &last); err != nil || last < first {
		return portRange{}, fmt.Errorf("%q is not a range of ports", s)
	}
	return portRange{first, last - first + 1}, nil
}

// portSet is the allocated ports of a range. It is stored as a core/v1 RangeAllocation: the range as text, and a
// big-endian number whose bit n is set if port first+n is allocated.
type portSet struct {
	portRange
	bits big.Int
}

func (s *portSet) has(port int32) bool {
	return s.contains(port) && s.bits.Bit(int(port-s.first)) == 1
}

func (s *portSet) add(port int32) { s.bits.SetBit(&s.bits, int(port-s.first), 1) }

func (s *portSet) remove(port int32) { s.bits.SetBit(&s.bits, int(port-s.first), 0) }

// each calls f with every port in the set, in order.
func (s *portSet) each(f func(port int32)) {
	for n := range s.size {
		if s.bits.Bit(int(n)) == 1 {
			f(s.first + n)
		}
	}
}

// envelope is the prefix of stored protobuf.
var envelope = []byte("k8s\x00")

// encode returns the bytes to store.
func (s *portSet) encode() ([]byte, error) {
	obj := corev1.RangeAllocation{Range: s.String(), Data: s.bits.Bytes()}
	raw, err := obj.Marshal()
	if err != nil {
		return nil, err
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Raw: raw}
	b := make([]byte, len(envelope)+u.Size())
	copy(b, envelope)
	_, err = u.MarshalTo(b[len(envelope):])
	return b, err
}

// decodePorts reads stored bytes.
func decodePorts(b []byte) (*portSet, error) {
	raw, ok := bytes.CutPrefix(b, envelope)
	if !ok {
		return nil, errors.New("the stored range of node ports is not protobuf")
	}
	var u runtime.Unknown
	var obj corev1.RangeAllocation
	err := u.Unmarshal(raw)
	if err == nil {
		err = obj.Unmarshal(u.Raw)
	}
	if err != nil {
		return nil, fmt.Errorf("decode the stored range of node ports: %w", err)
	}
	r, err := parsePortRange(obj.Range)
	if err != nil {
		return nil, err
	}
	s := &portSet{portRange: r}
	s.bits.SetBytes(obj.Data)
	return s, nil
}
