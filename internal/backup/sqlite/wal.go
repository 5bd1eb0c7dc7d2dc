package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	walHeader, frameHeader = 32, 24
	walMagic               = 0x377f0682 // the last bit says that checksums read words as big endian
	walVersion             = 3007000

	indexHeader = 48 // of the index of the log, of which it has two copies
	indexSums   = 40 // bytes that its checksum is of
)

// wal is the part of a write-ahead log that has been committed.
type wal struct {
	file   *os.File
	frames map[uint32]int64 // by page, where its newest content is
	pages  uint32           // of the database
}

// extent is what the index says of the log.
type extent struct {
	frames, pages uint32
	salts         [8]byte
	sum           [2]uint32 // of the last frame
}

// readExtent reads the header of the index, which writers change in place: the copies differ while one does.
func readExtent(shm io.ReaderAt) (e extent, ok bool, err error) {
	b := make([]byte, 2*indexHeader)
	if _, err := shm.ReadAt(b, 0); err != nil {
		return e, false, err
	}
	native := binary.NativeEndian
	one := b[:indexHeader]
	sum := checksum(native, [2]uint32{}, one[:indexSums])
	if !bytes.Equal(one, b[indexHeader:]) || one[12] == 0 || native.Uint32(one) != walVersion || sum != [2]uint32{native.Uint32(one[40:]), native.Uint32(one[44:])} {
		return e, false, nil
	}
	e = extent{frames: native.Uint32(one[16:]), pages: native.Uint32(one[20:]), sum: [2]uint32{native.Uint32(one[24:]), native.Uint32(one[28:])}}
	copy(e.salts[:], one[32:40])
	return e, true, nil
}

// readWAL reads which pages the log has. If want is nil, nobody uses the log: it counts up to the last commit that is complete, as SQLite
// has it when it recovers. Otherwise it counts up to what want says, and must have that.
func readWAL(f *os.File, size int64, want *extent) (*wal, error) {
	w := &wal{file: f, frames: map[uint32]int64{}}
	if want != nil && want.frames == 0 {
		w.pages = want.pages
		return w, nil
	}
	b := make([]byte, walHeader)
	if _, err := f.ReadAt(b, 0); errors.Is(err, io.EOF) && want == nil {
		return w, nil // it has nothing
	} else if err != nil {
		return nil, fmt.Errorf("the write-ahead log: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if big.Uint32(b)&1 == 1 {
		order = big
	}
	sum := checksum(order, [2]uint32{}, b[:24])
	if big.Uint32(b)&^1 != walMagic || big.Uint32(b[4:]) != walVersion || pageSize(big.Uint32(b[8:])) != size || !sumIs(sum, b[24:]) {
		if want != nil {
			return nil, errors.New("the write-ahead log: its header is damaged")
		}
		return w, nil // a crash before the first commit; SQLite does not read it either
	}
	salts := [8]byte(b[16:24])
	if want != nil && salts != want.salts {
		return nil, errors.New("the write-ahead log is not the one of its index")
	}
	return w, w.read(order, sum, salts, size, want)
}

// read reads the frames after the header, whose checksum each continues.
func (w *wal) read(order binary.ByteOrder, sum [2]uint32, salts [8]byte, size int64, want *extent) error {
	r := bufferedAt(w.file, walHeader)
	frame, open := make([]byte, frameHeader+size), map[uint32]int64{}
	for n, at := uint32(1), int64(walHeader); want == nil || n <= want.frames; n, at = n+1, at+int64(len(frame)) {
		_, err := io.ReadFull(r, frame)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("frame %d of the write-ahead log: %w", n, err)
		}
		if err == nil {
			sum = checksum(order, checksum(order, sum, frame[:8]), frame[frameHeader:])
		}
		page, pages := big.Uint32(frame), big.Uint32(frame[4:])
		if err != nil || page == 0 || [8]byte(frame[8:16]) != salts || !sumIs(sum, frame[16:]) {
			if want != nil {
				return fmt.Errorf("frame %d of the write-ahead log is damaged", n)
			}
			return nil // what follows was not completed, or is of an earlier log
		}
		open[page] = at + frameHeader
		if pages == 0 {
			continue
		}
		w.pages = pages
		for page, at := range open {
			w.frames[page] = at
		}
		clear(open)
	}
	if len(open) > 0 || w.pages != want.pages || sum != want.sum {
		return errors.New("the write-ahead log does not end where its index says")
	}
	return nil
}

func sumIs(sum [2]uint32, b []byte) bool { return sum == [2]uint32{big.Uint32(b), big.Uint32(b[4:])} }

// checksum continues a checksum of the log. The length of b is a multiple of 8.
func checksum(order binary.ByteOrder, sum [2]uint32, b []byte) [2]uint32 {
	one, two := sum[0], sum[1]
	for ; len(b) >= 8; b = b[8:] {
		one += order.Uint32(b) + two
		two += order.Uint32(b[4:]) + one
	}
	return [2]uint32{one, two}
}
