package process

import "errors"

// Closers close resources, the last opened first.
type Closers []func() error

// Add adds what closes a resource.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// Close closes all, and forgets them.
func (c *Closers) Close() error {
	var errs []error
	for n := len(*c) - 1; n >= 0; n-- {
		errs = append(errs, (*c)[n]())
	}
	*c = nil
	return errors.Join(errs...)
}
