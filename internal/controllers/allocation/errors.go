package allocation

// TakenError means that the requested address or port belongs to another service.
type TakenError struct {
	// What names the address or port.
	What string
}

func (e *TakenError) Error() string { return e.What + " is already allocated" }

// RangeError means that the requested address or port is outside of the range.
type RangeError struct {
	// What says so of an address or a port.
	What string
}

func (e *RangeError) Error() string { return e.What }
