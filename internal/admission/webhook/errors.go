package webhook

import (
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

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.webhook, e.reason)
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
	if st, ok := err.(*apierrors.StatusError); ok {
		return int(st.ErrStatus.Code)
	}
	return instead
}
