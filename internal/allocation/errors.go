package allocation

import "fmt"

// TakenError says that what was asked for belongs to a service already.
type TakenError struct {
	// What is an address or a port.
	What string
}

func (e *TakenError) Error() string { return e.What + " is already allocated" }

// RangeError says that what was asked for is not among what there is to give.
type RangeError struct {
	What string
	// Range is where it should be from; empty: there is none.
	Range string
}

func (e *RangeError) Error() string {
	if e.Range == "" {
		return e.What + " is not in a range to allocate from"
	}
	return fmt.Sprintf("%s is not in the range %s", e.What, e.Range)
}
