package webhook

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// callError is a failed call of a webhook, to which failurePolicy applies.
type callError struct {
	webhook string
	reason  error
	// code is the code of the answer in metrics.
	code int
}

// maxReason bounds the message of a failure for clients, in bytes: a webhook
// may answer with a kind of any length.
const maxReason = 4096

func (e *callError) Error() string {
	reason := e.reason.Error()
	return fmt.Sprintf("failed calling webhook %q: %s", e.webhook, reason[:min(len(reason), maxReason)])
}

func (e *callError) Unwrap() error { return e.reason }

// rejection is a webhook's refusal.
type rejection struct{ status *apierrors.StatusError }

func (e *rejection) Error() string { return e.status.Error() }

// denied makes the answer to a client from a webhook's refusal. It keeps the
// webhook's status, except for a code or status of success.
func denied(webhook string, result *metav1.Status) *rejection {
	st := metav1.Status{Status: metav1.StatusFailure}
	if result != nil {
		st = *result
	}
	st.Code = max(st.Code, 0)
	if st.Code < http.StatusBadRequest {
		st.Code = http.StatusBadRequest
	}
	if st.Status == "" || st.Status == metav1.StatusSuccess {
		st.Status = metav1.StatusFailure
	}
	by := fmt.Sprintf("admission webhook %q denied the request", webhook)
	switch {
	case st.Message != "":
		st.Message = by + ": " + st.Message
	case st.Reason != "":
		st.Message = by + ": " + string(st.Reason)
	default:
		st.Message = by + " without explanation"
	}
	return &rejection{&apierrors.StatusError{ErrStatus: st}}
}

// codeOf returns the code of an error's status, or instead if it has none.
func codeOf(err error, instead int) int {
	var st *apierrors.StatusError
	if errors.As(err, &st) {
		return int(st.ErrStatus.Code)
	}
	return instead
}
