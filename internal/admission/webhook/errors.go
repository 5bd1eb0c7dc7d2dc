package webhook

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// callError is a failure to ask a webhook, which failurePolicy decides about.
type callError struct {
	webhook string
	reason  error
	// code is what metrics say the webhook answered.
	code int
}

// maxReason bounds what a client is told of a failure, in bytes: a webhook may
// call itself by a kind of any length.
const maxReason = 4096

func (e *callError) Error() string {
	reason := e.reason.Error()
	return fmt.Sprintf("failed calling webhook %q: %s", e.webhook, reason[:min(len(reason), maxReason)])
}

func (e *callError) Unwrap() error { return e.reason }

// rejection is a webhook's refusal.
type rejection struct{ status *apierrors.StatusError }

func (e *rejection) Error() string { return e.status.Error() }

// denied makes the answer to a client out of a webhook's refusal: what it says,
// as far as it is a refusal at all.
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

// codeOf is the code of an error's status, or that of what it is instead.
func codeOf(err error, instead int) int {
	var st *apierrors.StatusError
	if errors.As(err, &st) {
		return int(st.ErrStatus.Code)
	}
	return instead
}
