//go:build !unix

package aggregator

import "net"

// quiet reports whether a connection is open and nothing has come that nobody has asked for, and whether that can be seen.
// Here it cannot.
func quiet(net.Conn) (still, seen bool) { return false, false }
