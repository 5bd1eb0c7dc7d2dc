package engine

import (
	"errors"
	"testing"
)

// keeper is a writer that fails while it still sends, as the one of a stream that its client has reset.
type keeper struct{ sending []byte }

func (k *keeper) Write(p []byte) (int, error) {
	k.sending = p
	return 0, errors.New("stream closed")
}

type swallow struct{}

func (swallow) Write(p []byte) (int, error) { return len(p), nil }

// What one request writes never reaches the client of another whose write has failed.
func TestBrokenWritesKeepTheirBuffer(t *testing.T) {
	for range 20 {
		k := &keeper{}
		broken := gatherer{w: k}
		broken.write([]byte("for the first client"))
		broken.flush()
		other := gatherer{w: swallow{}}
		other.write([]byte("for another client"))
		other.flush()
		if got := string(k.sending); got != "for the first client" {
			t.Fatalf("the first client is sent %q", got)
		}
	}
}
