package aggregator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answer is a whole answer of an extension server.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// get reads a document of the backend. Neither its time nor its size is unbounded.
func (b *backend) get(ctx context.Context, path string, header http.Header, timeout time.Duration, limit int) (*answer, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address, err := b.address(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := b.send(ctx, address, path, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(body) > limit {
		return nil, fmt.Errorf("read %s: %w", path, errTooLong)
	}
	return &answer{code: resp.StatusCode, header: resp.Header, body: body}, nil
}
