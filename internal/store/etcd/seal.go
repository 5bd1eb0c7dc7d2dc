package etcd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/store/dbfile"
)

// etcd's database has no checksums. A flipped bit in it can turn one key into another, so that an object is missing without a word.
// So an etcd that is stopped in order leaves a seal: the checksum of its database, and when each file of its write-ahead log was
// written. If the log is as it was, no etcd has run in between, and the database must be as it was, too.
//
// After a crash there is no seal. Then the structure of the database is looked through (package dbfile), which finds what would make etcd
// panic but not a changed byte in a value.

// sealFile is in the data directory of etcd, which does not look at it.
const sealFile = "seal.json"

type seal struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc32c"`
	// Log has the times of the files of the write-ahead log, in nanoseconds, by their names.
	Log map[string]int64 `json:"log"`
}

func databaseOf(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// makeSeal seals a directory whose etcd has stopped.
func makeSeal(dir string) error {
	var s seal
	var err error
	if s.Bytes, s.CRC, err = checksum(databaseOf(dir)); err != nil {
		return fmt.Errorf("seal etcd's database: %w", err)
	}
	if s.Log, err = logTimes(dir); err != nil {
		return fmt.Errorf("seal etcd's database: %w", err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sealFile), append(b, '\n'), 0o600)
}

// examine returns an error if the database in a directory is damaged. Otherwise it breaks the seal, since the database changes from
// now on.
func examine(dir string) error {
	path := databaseOf(dir)
	sealed := readSeal(dir)
	if sealed == nil {
		if err := checkPages(path); err != nil {
			return err
		}
	} else if bytes, crc, err := checksum(path); err != nil {
		return fmt.Errorf("read the database: %w", err)
	} else if bytes != sealed.Bytes || crc != sealed.CRC {
		return cmp.Or(checkPages(path), fmt.Errorf("the database %s is not what it was when etcd stopped: it is damaged, or a program has changed it; "+
			"remove %s to have it taken as it is", path, filepath.Join(dir, sealFile)))
	}
	if err := os.Remove(filepath.Join(dir, sealFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readSeal returns the seal if it says what the database must be: nil if there is none, if it cannot be read, or if another etcd has
// run since.
func readSeal(dir string) *seal {
	var s seal
	b, err := os.ReadFile(filepath.Join(dir, sealFile))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return nil
	}
	if now, err := logTimes(dir); err != nil || !maps.Equal(now, s.Log) {
		return nil
	}
	return &s
}

// checkPages returns an error if the database in a file, which may be missing, is damaged.
func checkPages(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // empty: made, and not written to yet
		return err
	}
	if err := dbfile.Check(f, info.Size(), nil); err != nil {
		return fmt.Errorf("the database %s is damaged: %w", path, err)
	}
	return nil
}

func checksum(path string) (bytes int64, crc uint32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	bytes, err = io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return bytes, sum.Sum32(), err
}

func logTimes(dir string) (map[string]int64, error) {
	files, err := os.ReadDir(filepath.Join(dir, "member", "wal"))
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		out[f.Name()] = info.ModTime().UnixNano()
	}
	return out, nil
}
