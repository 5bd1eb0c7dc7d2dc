package chain

import (
	"net/http"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Received notes when a request arrived.
func Received(clk clock.PassiveClock) Filter {
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			next(w, r.WithContext(request.WithReceived(r.Context(), clk.Now())))
		}
	}
}
