package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxResponse bounds an answer, in bytes. A patch may hold an object of the
// largest size that a request has, in base 64, as the value of an operation.
const maxResponse = 8 << 20

// callTimeout bounds a call that has no timeout of its own.
const callTimeout = 30 * time.Second

// maxRetries is how often a webhook that asks for patience (429 or a failure
// with Retry-After) is asked again, within the time of the call.
const maxRetries = 10

// post sends a review and returns what a 2xx answer holds. Anything else is an
// error, a StatusError where the webhook gave a code.
func (c *client) post(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for retry := 0; ; retry++ {
		got, wait, err := c.postOnce(ctx, body)
		if wait <= 0 || retry == maxRetries {
			return got, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// postOnce also returns how long to wait before asking again; 0: never.
func (c *client) postOnce(ctx context.Context, body []byte) ([]byte, time.Duration, error) {
	u := c.url
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left > 0 {
			whole := left.Truncate(time.Second)
			if whole != left {
				whole += time.Second
			}
			u.RawQuery = url.Values{"timeout": {whole.String()}}.Encode()
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	resp, err := (&http.Client{Transport: c.transport}).Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return nil, 0, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	}
	if len(got) > maxResponse {
		return nil, 0, fmt.Errorf("the response is larger than %d bytes", maxResponse)
	}
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		wait := time.Duration(0)
		if resp.Header.Get("Retry-After") != "" && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500) {
			wait = time.Duration(max(after, 1)) * time.Second
		}
		return nil, wait, answered(resp, got, after)
	}
	return got, 0, nil
}

// maxErrorText is how much of an answer an error repeats, in bytes.
const maxErrorText = 2048

// answered makes the error of an answer that is none: the Status that it
// holds, or one made of its code and text.
func answered(resp *http.Response, body []byte, retryAfter int) error {
	text := body[:min(len(body), maxErrorText)]
	message := "unknown"
	if isText(resp) {
		message = strings.TrimSpace(string(text))
	}
	err := apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", message, retryAfter, true)
	if !apierrors.IsUnexpectedServerError(err) {
		return err
	}
	var st metav1.Status
	if json.Unmarshal(body, &st) == nil && st.Kind == "Status" && st.Status == metav1.StatusFailure {
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
