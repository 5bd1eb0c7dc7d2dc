package etcd

import (
	"context"
	"crypto/sha256"
	"io"

	"go.etcd.io/etcd/server/v3/storage/backend"
)

// Snapshot streams etcd's database at one revision, with its SHA-256 at the end. etcd keeps what the snapshot needs until
// it is closed, or ctx ends.
func (d *DB) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	if err := d.broken.err(); err != nil {
		return nil, err
	}
	if d.backend != nil {
		return streamed(ctx, d.backend.Snapshot()), nil
	}
	r, err := d.Client.Snapshot(ctx)
	return r, translated(err)
}

// streamed streams a snapshot of the embedded etcd. etcd's own client in this process loses the end of streams.
func streamed(ctx context.Context, snap backend.Snapshot) io.ReadCloser {
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		h := sha256.New()
		_, err := snap.WriteTo(io.MultiWriter(in, h))
		if closing := snap.Close(); err == nil {
			err = closing
		}
		if err == nil {
			_, err = in.Write(h.Sum(nil))
		}
		_ = in.CloseWithError(err) // nil is the end of the stream
	}()
	return out
}
