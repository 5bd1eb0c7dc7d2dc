package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// exitError is the result of a command that ended with a code other than 0.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("command terminated with exit code %d", int(e)) }

// statusError returns the result of a command that a kubelet wrote to the error stream; nil: success.
func statusError(text []byte) error {
	var st metav1.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("error stream protocol error: %w in %q", err, text)
	}
	switch {
	case st.Status == metav1.StatusSuccess:
		return nil
	case st.Status != metav1.StatusFailure:
		return errors.New("error stream protocol error: unknown error")
	case st.Reason != remotecommand.NonZeroExitCodeReason:
		return errors.New(st.Message)
	case st.Details == nil:
		return errors.New("error stream protocol error: details must be set")
	}
	for _, c := range st.Details.Causes {
		if c.Type != remotecommand.ExitCodeCauseType {
			continue
		}
		n, err := strconv.ParseUint(c.Message, 10, 8)
		if err != nil {
			return fmt.Errorf("error stream protocol error: invalid exit code value %q", c.Message)
		}
		return exitError(n)
	}
	return fmt.Errorf("error stream protocol error: no %s cause", remotecommand.ExitCodeCauseType)
}

// resultStatus returns the status that tells a client the result.
func resultStatus(err error) *metav1.Status {
	if err == nil {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	if code := exitError(0); errors.As(err, &code) {
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(int(code))}}},
		}
	}
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		st = apierrors.NewInternalError(err)
	}
	out := st.Status()
	return &out
}

// codeOf returns the HTTP status of a result, for metrics.
func codeOf(st *metav1.Status) int {
	if st.Status == metav1.StatusSuccess || st.Reason == remotecommand.NonZeroExitCodeReason {
		return http.StatusOK
	}
	if st.Code == 0 {
		return http.StatusInternalServerError
	}
	return int(st.Code)
}

// refusalText returns the message in the body of a kubelet's refusal.
func refusalText(body []byte) string {
	var st struct{ Message, Error string }
	if json.Unmarshal(body, &st) == nil {
		if m := strings.TrimSpace(st.Message); m != "" {
			return m
		}
		if m := strings.TrimSpace(st.Error); m != "" {
			return m
		}
	}
	if m := strings.TrimSpace(string(body)); m != "" {
		return m
	}
	return "empty server response"
}
