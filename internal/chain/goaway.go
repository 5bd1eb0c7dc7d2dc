package chain

import (
	"net/http"
)

// Goaway asks some HTTP/2 clients, chosen at random, to reconnect once their requests are answered. Behind a load
// balancer this spreads clients over servers that were started later. draw returns a number from 0 to 1.
func Goaway(chance float64, draw func() float64) Filter {
	if chance <= 0 {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && draw() < chance {
				// The HTTP/2 server turns this into a GOAWAY frame.
				w.Header().Set("Connection", "close")
			}
			next(w, r)
		}
	}
}
