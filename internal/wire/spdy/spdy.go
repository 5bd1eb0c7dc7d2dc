// Package spdy writes and reads the frames of SPDY/3.1 that the client of a kubelet needs: it opens streams, sends and
// receives their data, and answers pings. It reads no header blocks, because such a client learns nothing from the
// kubelet's headers. A connection therefore holds no compression state, which in other implementations is most of what
// an idle connection costs. There is no flow control: Kubernetes uses none.
//
// A frame is a head of 8 bytes and a payload (all numbers are big-endian):
//
//	control  1 | version (15 bits) | type (16) | flags (8) | length (24)
//	data     0 | stream (31)                   | flags (8) | length (24)
package spdy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Type is the type of a control frame. Other types exist and are skipped.
type Type uint16

// Types of control frames. Data is none of them: it marks data frames.
const (
	Data      Type = 0
	SynStream Type = 1
	SynReply  Type = 2
	RstStream Type = 3
	Ping      Type = 6
	GoAway    Type = 7
)

// fin is the flag of the last frame of a stream.
const fin = 0x01

const (
	version   = 3
	headSize  = 8
	maxLength = 1<<24 - 1
	// maxControl bounds the payload of a control frame.
	maxControl = 64 << 10
)

// Head is the head of a frame. Of a data frame, Length bytes of data follow, to be read by the caller.
type Head struct {
	Type   Type
	Stream uint32 // of stream frames
	ID     uint32 // of pings
	Fin    bool
	Length int // of data frames
}

// ErrVersion is the error of a frame of another version of SPDY.
var ErrVersion = errors.New("spdy: the frame is not of version 3")

// ReadHead reads the head of the next frame, and the payload of a control frame.
func ReadHead(r io.Reader) (Head, error) {
	var b [headSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Head{}, err
	}
	first, second := binary.BigEndian.Uint32(b[:4]), binary.BigEndian.Uint32(b[4:])
	h := Head{Fin: second>>24&fin != 0}
	length := int(second & maxLength)
	if first>>31 == 0 {
		h.Stream, h.Length = first, length
		return h, nil
	}
	if first>>16&0x7fff != version {
		return Head{}, ErrVersion
	}
	h.Type = Type(first & 0xffff)
	return h, h.readControl(r, length)
}

// readControl reads the payload of a control frame: its first number is a stream or the ID of a ping, the rest is
// skipped.
func (h *Head) readControl(r io.Reader, length int) error {
	if length > maxControl {
		return fmt.Errorf("spdy: a control frame of %d bytes", length)
	}
	rest := int64(length)
	if h.Type <= GoAway {
		var b [4]byte
		if length < len(b) {
			return fmt.Errorf("spdy: a control frame of type %d and %d bytes", h.Type, length)
		}
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return noEOF(err)
		}
		n := binary.BigEndian.Uint32(b[:])
		switch h.Type {
		case Ping:
			h.ID = n
		case SynStream, SynReply, RstStream:
			h.Stream = n &^ (1 << 31)
		}
		rest -= int64(len(b))
	}
	_, err := io.CopyN(io.Discard, r, rest)
	return noEOF(err)
}

// noEOF turns the end of the input inside of a frame into an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendData appends the head of a data frame; length bytes of data must follow.
func AppendData(b []byte, stream uint32, length int, last bool) []byte {
	b = binary.BigEndian.AppendUint32(b, stream&^(1<<31))
	return appendFlags(b, length, last)
}

// AppendPing appends a ping, or the answer to one, which has its ID.
func AppendPing(b []byte, id uint32) []byte {
	b = appendControl(b, Ping, 4)
	return binary.BigEndian.AppendUint32(b, id)
}

// AppendGoAway appends the announcement that no streams will follow.
func AppendGoAway(b []byte) []byte {
	b = appendControl(b, GoAway, 8)
	return append(b, make([]byte, 8)...) // no stream of the other side was seen, status OK
}

func appendControl(b []byte, t Type, length int) []byte {
	b = binary.BigEndian.AppendUint32(b, 1<<31|version<<16|uint32(t))
	return appendFlags(b, length, false)
}

func appendFlags(b []byte, length int, last bool) []byte {
	n := uint32(length & maxLength)
	if last {
		n |= fin << 24
	}
	return binary.BigEndian.AppendUint32(b, n)
}

// Opener opens streams. The header blocks of one connection are one compressed text, therefore it remembers whether
// that has begun.
type Opener struct {
	last  uint32
	begun bool
}

// Open appends the frame that opens a stream, and returns the stream's number.
func (o *Opener) Open(b []byte, header http.Header) ([]byte, uint32) {
	if o.last == 0 {
		o.last = 1 // streams of a client are odd
	} else {
		o.last += 2
	}
	block := o.compress(headerBlock(header))
	b = appendControl(b, SynStream, 10+len(block))
	b = binary.BigEndian.AppendUint32(b, o.last)
	b = append(b, 0, 0, 0, 0, 0, 0) // no associated stream, highest priority
	return append(b, block...), o.last
}

// headerBlock encodes headers: their number, then length and text of each name and of its values.
func headerBlock(header http.Header) []byte {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, name := range names {
		for _, s := range []string{strings.ToLower(name), strings.Join(header[name], "\x00")} {
			b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

// compress returns the next piece of the zlib stream of header blocks. It stores data instead of compressing it: few
// bytes are sent, and a compressor has hundreds of kilobytes.
func (o *Opener) compress(data []byte) []byte {
	var b []byte
	if !o.begun {
		b, o.begun = append(b, 0x78, 0x01), true // deflate with a window of 32 KB, without a dictionary
	}
	b = appendStored(b, data)
	return appendStored(b, nil) // an empty block makes the decoder give out what came before
}

// appendStored appends a stored block of deflate: its header, its length, and the complement of that.
func appendStored(b, data []byte) []byte {
	n := uint16(len(data))
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint16(b, n)
	b = binary.LittleEndian.AppendUint16(b, ^n)
	return append(b, data...)
}
