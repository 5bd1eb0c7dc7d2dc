package engine

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

// packer writes a watch as gzip, of one member, since many readers know no more. The initial events are compressed; those that follow
// are the same bytes for every watcher, and to compress them once for each would cost more than all else that is done for a watch, so
// they are only framed, in stored blocks.
type packer struct {
	w         io.Writer
	begun     bool
	stored    bool          // from the next write on
	pending   bool          // stored blocks were written since the last flush
	z         *flate.Writer // nil: nothing is being compressed
	sum, size uint32
}

// deflaters are compressors at the fastest level; each takes a few hundred KB, so a watch has one for its initial events only.
var deflaters = sync.Pool{New: func() any {
	z, _ := flate.NewWriter(nil, flate.BestSpeed)
	return z
}}

// gzipHeader is the header of a file without a name, a time or a system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Empty stored blocks: syncBlock is one at which readers give away what came before it, lastBlock one that nothing follows.
const syncBlock, lastBlock = "\x00\x00\x00\xff\xff", "\x01\x00\x00\xff\xff"

func (p *packer) Write(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		if _, err := io.WriteString(p.w, gzipHeader); err != nil {
			return 0, err
		}
	}
	p.sum = crc32.Update(p.sum, crc32.IEEETable, b)
	p.size += uint32(len(b)) // modulo 2^32, as RFC 1952 wants it
	if p.stored {
		return p.store(b)
	}
	if p.z == nil {
		p.z = deflaters.Get().(*flate.Writer)
		p.z.Reset(p.w)
	}
	return p.z.Write(b)
}

func (p *packer) store(b []byte) (int, error) {
	p.pending = true
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

// flush lets readers have all that was written. It ends at a whole byte, so that stored blocks can follow.
func (p *packer) flush() error {
	if p.z == nil {
		if p.pending {
			p.pending = false
			_, err := io.WriteString(p.w, syncBlock)
			return err
		}
		return nil
	}
	if err := p.z.Flush(); err != nil || !p.stored {
		return err
	}
	p.z.Reset(io.Discard)
	deflaters.Put(p.z)
	p.z = nil
	return nil
}

// initialEnd says that the initial events are over: what is compressed is written, and the rest is stored.
func (p *packer) initialEnd() error {
	p.stored = true
	return p.flush()
}

// close ends the file, if it has begun.
func (p *packer) close() error {
	if !p.begun {
		return nil
	}
	if err := p.initialEnd(); err != nil {
		return err
	}
	trailer := binary.LittleEndian.AppendUint32([]byte(lastBlock), p.sum)
	_, err := p.w.Write(binary.LittleEndian.AppendUint32(trailer, p.size))
	return err
}
