package listen

import (
	"errors"
	"fmt"
	"syscall"
)

// apply refuses: on Windows SO_REUSEADDR would let any process take the port of another, and there is no SO_REUSEPORT.
func (s Sharing) apply(syscall.RawConn) error {
	if s.Port || s.Address {
		return fmt.Errorf("ports and addresses cannot be shared on Windows: %w", errors.ErrUnsupported)
	}
	return nil
}
