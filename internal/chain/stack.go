package chain

import "net/http"

// growStack makes room on the stack for a request. Under HTTP/2 each request has a goroutine of its own. Its stack
// starts small and would double several times as the calls go deeper, and each time the runtime walks and copies all
// frames: a quarter of what a small read costs. At the start there is next to nothing to copy.
//
// The stack grows to the size of a frame whose room is never used, and so never cleared. Stacks are powers of two.
func growStack(method string) {
	switch method {
	case http.MethodGet, http.MethodHead:
		growForRead(false)
	default:
		growForWrite(false)
	}
}

// growForRead gives a stack of 16 KB: enough for the filters and a handler that does not write.
//
//go:noinline
func growForRead(use bool) byte {
	if !use {
		return 0
	}
	var room [12 << 10]byte
	return touch(room[:])
}

// growForWrite gives a stack of 32 KB: enough also for admission, and for walking deep objects.
//
//go:noinline
func growForWrite(use bool) byte {
	if !use {
		return 0
	}
	var room [24 << 10]byte
	return touch(room[:])
}

//go:noinline
func touch(room []byte) byte { return room[len(room)-1] }
