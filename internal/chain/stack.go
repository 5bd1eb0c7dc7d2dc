package chain

import "net/http"

// growStack makes room on the stack for a request. Under HTTP/2 each has a
// goroutine of its own, whose stack would grow by doubling as the calls go
// deeper, and each time all frames are walked and copied: a sixth of what a
// small request costs. At the start there is next to nothing to copy.
//
// The stack grows for the size of a frame; its room is never used, and so
// never cleared.
func growStack(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			growForRead(false)
		default:
			growForWrite(false)
		}
		next.ServeHTTP(w, r)
	})
}

// growForRead is for the filters, some thirty calls, and a handler as deep.
//
//go:noinline
func growForRead(use bool) byte {
	if !use {
		return 0
	}
	var room [12 << 10]byte
	return touch(room[:])
}

// growForWrite is also for admission, and for walking deep objects.
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
