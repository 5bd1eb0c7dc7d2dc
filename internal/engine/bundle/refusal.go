package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusals are those of the items of a bundle.
type refusals struct {
	first  *metav1.Status
	causes []metav1.StatusCause
}

// add takes note of the refusal of an item.
func (r *refusals) add(n int, w *write, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	if r.first == nil {
		r.first = &status
	}
	r.causes = append(r.causes, metav1.StatusCause{
		Type: metav1.CauseType(status.Reason), Field: cmp.Or(w.Field, fmt.Sprintf("spec.items[%d]", n)), Message: w.name() + ": " + status.Message,
	})
}

// err is the refusal of the bundle: that of the first item which was refused, and the reasons of all. nil: none was.
func (r *refusals) err() error {
	if r.first == nil {
		return nil
	}
	c := r.causes[0]
	message := fmt.Sprintf("nothing was written: %s: %s", c.Field, c.Message)
	if more := len(r.causes) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: r.first.Code, Reason: r.first.Reason, Message: message,
		Details: &metav1.StatusDetails{Causes: r.causes},
	}}
}

// Refusal reads the answer to a write that was refused.
func Refusal(code int, body []byte) error {
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Status == "" {
		status = metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: string(body)}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// newer reports whether a resourceVersion is of after a revision.
func newer(resourceVersion string, than int64) bool {
	rev, err := strconv.ParseInt(resourceVersion, 10, 64)
	return err == nil && rev > than
}
