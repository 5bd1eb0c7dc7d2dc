package webhook

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// maxResponse bounds an answer, in bytes. A patch is in base 64, and an
// operation's value may be an object of the largest size of a request.
const maxResponse = 8 << 20

// callTimeout bounds a call that has no timeout of its own.
const callTimeout = 30 * time.Second

// maxRetries is how often a call is repeated if the webhook asks to retry (429
// or a failure with Retry-After), within the timeout of the call.
const maxRetries = 10

// post sends a review and returns the body of a 2xx answer. Anything else is an
// error, a StatusError if the webhook has answered with a code.
func (c *client) post(ctx context.Context, body []byte) ([]byte, error) {
	defer request.Elsewhere(ctx)()
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

// postOnce also returns how long to wait before a retry; 0: do not retry.
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
	resp, got, err := remote.Exchange(&http.Client{Transport: c.transport}, req, maxResponse)
	return got, patience(resp), err
}

// patience returns how long an answer asks to wait before a retry; 0: do not
// retry.
func patience(resp *http.Response) time.Duration {
	if resp == nil || resp.Header.Get("Retry-After") == "" ||
		resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return 0
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(max(after, 1)) * time.Second
}
