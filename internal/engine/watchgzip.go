package engine

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// packer writes a watch as gzip. Each flush ends a member of the file, so that nothing is held until the next. The initial events are
// compressed; those that follow are the same bytes for every watcher, and to compress them once for each would cost more than all
// else that is done for a watch, so they are only framed, in stored blocks.
type packer struct {
	w      io.Writer
	stored bool       // from the next member on
	z      gzipWriter // of a compressed member that has begun
	frames *frames    // of a stored member that has begun
}

func (p *packer) Write(b []byte) (int, error) {
	switch {
	case p.z.Writer != nil:
	case p.frames != nil || p.stored:
		return p.store(b)
	default:
		p.z = newGzip(p.w)
	}
	return p.z.Write(b)
}

// frames is what the trailer of a stored member says about it.
type frames struct{ sum, size uint32 }

// memberHeader is the header of a member without a name, a time or a system.
const memberHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// lastBlocks are two empty stored blocks: one at which readers give away what came before it, and the last of the member.
const lastBlocks = "\x00\x00\x00\xff\xff\x01\x00\x00\xff\xff"

func (p *packer) store(b []byte) (int, error) {
	if p.frames == nil {
		p.frames = &frames{}
		if _, err := io.WriteString(p.w, memberHeader); err != nil {
			return 0, err
		}
	}
	p.frames.sum = crc32.Update(p.frames.sum, crc32.IEEETable, b)
	p.frames.size += uint32(len(b)) // modulo 2^32, as RFC 1952 wants it
	for block := range slices.Chunk(b, math.MaxUint16) {
		head := binary.LittleEndian.AppendUint16([]byte{0}, uint16(len(block)))
		head = binary.LittleEndian.AppendUint16(head, ^uint16(len(block)))
		if _, err := p.w.Write(head); err != nil {
			return 0, err
		}
		if _, err := p.w.Write(block); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// end ends the member that has begun. Readers look for the next member once they have seen the last block and the trailer, before they
// give away what they have read; so a flush comes before.
func (p *packer) end() error {
	if p.z.Writer != nil {
		z := p.z
		p.z = gzipWriter{}
		err := z.Flush()
		z.close()
		return err
	}
	if f := p.frames; f != nil {
		p.frames = nil
		trailer := binary.LittleEndian.AppendUint32([]byte(lastBlocks), f.sum)
		_, err := p.w.Write(binary.LittleEndian.AppendUint32(trailer, f.size))
		return err
	}
	return nil
}
