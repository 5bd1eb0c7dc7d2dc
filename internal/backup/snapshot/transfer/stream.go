// Package transfer takes the objects of one control plane from a database to another: as a stream of keys between a server and a command, and
// as a snapshot file on the side of the command. Servers write no files for that and read none that somebody sends.
//
// A stream is the text magic, a head, keys in ascending order and an end:
//
//	head    length, JSON (Head)
//	key     length of the key, key, CreateRevision, ModRevision, Version, seconds until it ends (0: never), length of the value, value
//	end     0, number of keys
//
// Numbers are varints. Keys are below the prefix of the control plane: "pods/default/web".
package transfer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Head is what a stream says of all its keys.
type Head struct {
	// Revision is that of the database, no key is newer.
	Revision int64 `json:"revision"`
	// Keys are the signing keys and authorities of the control plane, by name; none: it is to have new ones.
	Keys map[string][]byte `json:"keys,omitempty"`
}

// Key is one key of a stream, below the prefix of the control plane. It ends by itself after Seconds; 0: never.
type Key struct {
	kv.KeyValue
	Seconds int64
}

const magic = "kanzen plane 1\n"

// Bounds of what is read. Values are those that etcd can be configured to take, or less.
const (
	maxHead     = 1 << 20
	maxKey      = 2 << 10
	maxValue    = 16 << 20
	maxRevision = 1 << 62
)

// ErrStream says that what is read is no stream, or not a whole one.
var ErrStream = errors.New("the stream of objects is damaged, or not complete")

// Writer writes a stream.
type Writer struct {
	to  *bufio.Writer
	buf []byte
	n   uint64
}

// NewWriter begins a stream.
func NewWriter(to io.Writer, head Head) (*Writer, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	w := &Writer{to: bufio.NewWriterSize(to, 64<<10)}
	_, err = w.to.WriteString(magic)
	return w, errors.Join(err, w.bytes(text))
}

func (w *Writer) bytes(b []byte) error {
	w.buf = binary.AppendUvarint(w.buf, uint64(len(b)))
	_, err := w.to.Write(w.buf)
	w.buf = w.buf[:0]
	if err == nil {
		_, err = w.to.Write(b)
	}
	return err
}

// Put writes a key.
func (w *Writer) Put(k *Key) error {
	w.n++
	if err := w.bytes(k.Key); err != nil {
		return err
	}
	for _, n := range []int64{k.CreateRevision, k.ModRevision, k.Version, k.Seconds} {
		w.buf = binary.AppendUvarint(w.buf, uint64(n))
	}
	return w.bytes(k.Value)
}

// End writes the end.
func (w *Writer) End() error {
	w.buf = binary.AppendUvarint(append(w.buf[:0], 0), w.n)
	_, err := w.to.Write(w.buf)
	return errors.Join(err, w.to.Flush())
}

// Reader reads a stream, which may come from anybody.
type Reader struct {
	Head
	from *bufio.Reader
	last []byte
	n    uint64
}

// NewReader begins to read a stream. Errors: ErrStream.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{from: bufio.NewReaderSize(from, 64<<10)}
	begins := make([]byte, len(magic))
	if _, err := io.ReadFull(r.from, begins); err != nil || string(begins) != magic {
		return nil, damaged("it does not begin as one", err)
	}
	text, err := r.bytes(maxHead)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &r.Head); err != nil {
		return nil, damaged("its head", err)
	}
	if r.Revision < 1 || r.Revision > maxRevision {
		return nil, damaged(fmt.Sprintf("it has the revision %d", r.Revision), nil)
	}
	return r, nil
}

// damaged is an ErrStream. That a stream ends too early is what it means, and need not be said.
func damaged(what string, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s", ErrStream, what)
	}
	return fmt.Errorf("%w: %s: %w", ErrStream, what, err)
}

func (r *Reader) number() (uint64, error) {
	n, err := binary.ReadUvarint(r.from)
	if err != nil {
		return 0, damaged("it is cut off", err)
	}
	return n, nil
}

// bytes reads some, and takes memory only for those that come.
func (r *Reader) bytes(most uint64) ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, damaged(fmt.Sprintf("it has %d bytes where there may be %d", n, most), nil)
	}
	return r.exactly(n)
}

func (r *Reader) exactly(n uint64) ([]byte, error) {
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r.from, int64(n)); err != nil {
		return nil, damaged("it is cut off", err)
	}
	return b.Bytes(), nil
}

// Next reads the next key; nil: the stream has ended, and was whole. Errors: ErrStream.
func (r *Reader) Next() (*Key, error) {
	key, err := r.bytes(maxKey)
	if err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return nil, r.end()
	}
	if bytes.Compare(key, r.last) <= 0 {
		return nil, damaged(fmt.Sprintf("the key %.200q comes after %.200q", key, r.last), nil)
	}
	k := &Key{}
	k.Key, r.last = key, key
	for _, to := range []*int64{&k.CreateRevision, &k.ModRevision, &k.Version, &k.Seconds} {
		n, err := r.number()
		if err != nil {
			return nil, err
		}
		if n > maxRevision {
			return nil, damaged(fmt.Sprintf("the key %.200q has the number %d", key, n), nil)
		}
		*to = int64(n)
	}
	if k.CreateRevision < 1 || k.CreateRevision > k.ModRevision || k.ModRevision > r.Revision {
		return nil, damaged(fmt.Sprintf("the key %.200q has the revisions %d and %d", key, k.CreateRevision, k.ModRevision), nil)
	}
	r.n++
	k.Value, err = r.bytes(maxValue)
	return k, err
}

// end reads the end.
func (r *Reader) end() error {
	n, err := r.number()
	if err == nil && n != r.n {
		err = damaged(fmt.Sprintf("it has %d keys and not %d", r.n, n), nil)
	}
	return err
}
