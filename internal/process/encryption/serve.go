package encryption

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is where a server tells how values are encrypted (GET), and rewrites them (POST). It is no resource: "get" and
// "post" of this URL are to be allowed.
const Path = "/encryption"

// Line is a line of the answer: JSON, one of the three.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	// Error ends an answer that had begun.
	Error string `json:"error,omitempty"`
}

// Serve answers with lines that are sent as the work goes on. It ends when the client does. An error was not answered yet.
func (r *Rewriter) Serve(w http.ResponseWriter, req *http.Request) error {
	resource := schema.GroupResource{Resource: "encryption"}
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodPost:
		return apierrors.NewMethodNotSupported(resource, req.Method)
	case r.Encryption == nil:
		return apierrors.NewBadRequest("this server encrypts nothing: it was started without --encryption-provider-config")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	send := func(l Line) {
		if lines.Encode(l) == nil { // if the client is gone, the request's context ends the work
			_ = control.Flush()
		}
	}
	send(Line{Progress: &Progress{Step: "begin"}})
	report, err := r.Run(req.Context(), req.Method == http.MethodPost, func(p Progress) { send(Line{Progress: &p}) })
	if err != nil {
		send(Line{Error: err.Error()})
		return nil
	}
	send(Line{Report: report})
	return nil
}
