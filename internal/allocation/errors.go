package allocation

import "fmt"

// TakenError means that the requested address or port belongs to another service.
type TakenError struct {
	// What is an address or a port.
	What string
}

func (e *TakenError) Error() string { return e.What + " is already allocated" }

// RangeError means that the requested address or port is outside of the range.
type RangeError struct {
	What string
	// Range is the valid range; empty: there is none.
	Range string
}

func (e *RangeError) Error() string {
	if e.Range == "" {
		return e.What + " is not in a range to allocate from"
	}
	return fmt.Sprintf("%s is not in the range %s", e.What, e.Range)
}
