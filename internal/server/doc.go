// Package server assembles the parts of an API server. New is the only function
// that knows all of them, and reads top to bottom. Run starts them in the order
// of work and stops them in reverse.
package server
