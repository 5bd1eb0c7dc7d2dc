package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	headerBytes = 100
	magic       = "SQLite format 3\x00"
	textUTF8    = 1
)

var big = binary.BigEndian // as all numbers of the format are

// header is what the header of a database says.
type header struct {
	pageSize int64
	usable   int    // bytes of a page
	pages    uint32 // 0: as many as the file has
	wal      bool
}

func readHeader(r io.ReaderAt) (h header, err error) {
	b := make([]byte, headerBytes)
	n, err := r.ReadAt(b, 0)
	if n < headerBytes && (err == nil || errors.Is(err, io.EOF)) {
		return h, fmt.Errorf("%d bytes are no database of SQLite", n)
	}
	if n < headerBytes {
		return h, err
	}
	if string(b[:16]) != magic {
		return h, errors.New("it is no database of SQLite")
	}
	h.pageSize = pageSize(uint32(big.Uint16(b[16:])))
	h.usable = int(h.pageSize) - int(b[20])
	h.wal = b[19] == 2
	if big.Uint32(b[24:]) == big.Uint32(b[92:]) { // otherwise an old version has written, which did not keep the number of pages
		h.pages = big.Uint32(b[28:])
	}
	switch {
	case !validPageSize(h.pageSize) || h.usable < 480:
		err = fmt.Errorf("page 1: pages have %d bytes, of which %d are used", h.pageSize, h.usable)
	case b[18] > 2 || b[19] > 2:
		err = fmt.Errorf("page 1: the version of the format is %d", max(b[18], b[19]))
	case big.Uint32(b[56:]) != textUTF8 && big.Uint32(b[56:]) != 0:
		err = errors.New("its text is not UTF-8")
	}
	return h, err
}

// pageSize reads the number that stands for 65536, too, in 16 bits.
func pageSize(n uint32) int64 {
	if n == 1 {
		return 1 << 16
	}
	return int64(n)
}

func validPageSize(n int64) bool { return n >= 512 && n <= 1<<16 && n&(n-1) == 0 }

// checkJournal returns an error if a writer has left the database in the middle of a transaction. The journal beside it has what must be
// put back, which is for a writer to do.
func checkJournal(db *os.File) error {
	path := db.Name() + "-journal"
	j, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer j.Close()
	first := []byte{0}
	if _, err := j.ReadAt(first, 0); errors.Is(err, io.EOF) || err == nil && first[0] == 0 {
		return nil // the transaction has ended
	} else if err != nil {
		return err
	}
	writing, err := held(db, reservedByte)
	if err != nil || writing { // the writer cannot change the database while it is read
		return err
	}
	return fmt.Errorf("%s has the rest of a transaction that was not completed: let SQLite put it back (sqlite3 %s 'pragma user_version'), then try again", path, db.Name())
}
