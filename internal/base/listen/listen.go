// Package listen opens the port of a server.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// Sharing says with whom a port is shared.
type Sharing struct {
	// Port lets other processes of the same user listen on the same address and port (SO_REUSEPORT); the system deals
	// connections among them.
	Port bool
	// Address lets the port be taken while connections of an earlier process linger, and a wildcard and a specific address
	// be listened on side by side where the system can (SO_REUSEADDR). Go asks for it on Unix in any case.
	Address bool
}

// TCP listens on a host and port. An error says what to do about it.
func TCP(ctx context.Context, addr string, s Sharing) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error { return s.apply(socket) }}
	l, err := c.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; %s", addr, errors.Unwrap(err), advice(err))
	}
	return l, nil
}

// advice says what to do about a port or an address that cannot be had.
func advice(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "ports below 1024 need more rights; choose another with --secure-port"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine does not have the address; choose another with --bind-address"
	case errors.Is(err, errors.ErrUnsupported):
		return "leave out --permit-port-sharing and --permit-address-sharing"
	}
	return "choose another port with --secure-port (0: any that is free)"
}
