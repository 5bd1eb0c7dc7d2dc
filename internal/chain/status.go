package chain

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// WriteStatus answers with an error as a Status in JSON.
func WriteStatus(w http.ResponseWriter, _ *http.Request, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	data, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(data) // a client that went away
}

// retry tells a client after how many seconds to retry.
func retry(h http.Header, seconds int) { h.Set("Retry-After", strconv.Itoa(seconds)) }

// noSniff stops browsers from showing an error, which may contain text from the request, as a web page.
func noSniff(h http.Header) { h.Set("X-Content-Type-Options", "nosniff") }
