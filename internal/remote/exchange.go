package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Exchange sends a request and reads what a 2xx answer holds, up to a limit in
// bytes. Another answer is an error of apimachinery. The response, nil if there
// was none, is for its header: its body has been read.
func Exchange(c *http.Client, req *http.Request, limit int) (*http.Response, []byte, error) {
	resp, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return resp, nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > limit:
		return resp, nil, fmt.Errorf("the answer of %s is longer than %d bytes", req.URL.Host, limit)
	case resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent:
		return resp, nil, refusal(resp, answer)
	}
	return resp, answer, nil
}

// maxErrorText is how much of an answer an error repeats, in bytes.
const maxErrorText = 2048

// refusal makes the error of an answer that is none: one made of its code and
// text, or where the code says little the Status that it holds.
func refusal(resp *http.Response, answer []byte) error {
	message := "unknown"
	if isText(resp) {
		message = strings.TrimSpace(string(answer[:min(len(answer), maxErrorText)]))
	}
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	err := apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", message, retryAfter, true)
	if !apierrors.IsUnexpectedServerError(err) {
		return err
	}
	var st metav1.Status
	if json.Unmarshal(answer, &st) == nil && st.Kind == "Status" && st.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: st}
	}
	return err
}

func isText(resp *http.Response) bool {
	ct := resp.Header.Get("Content-Type")
	if ct == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(ct)
	return err == nil && strings.HasPrefix(media, "text/")
}
