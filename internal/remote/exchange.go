package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Exchange sends a request and reads what a 2xx answer holds, up to a limit in
// bytes. Another answer, a redirect too, is an error of apimachinery: whoever
// runs a webhook must neither lead this server to another place nor learn, or
// let a client learn, what is said there. The response, nil if there was none,
// is for its header: its body has been read.
func Exchange(c *http.Client, req *http.Request, limit int) (*http.Response, []byte, error) {
	here := *c
	here.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := here.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		return resp, nil, refused(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return resp, nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > limit:
		return resp, nil, fmt.Errorf("the answer of %s is longer than %d bytes", req.URL.Host, limit)
	}
	return resp, answer, nil
}

// maxText is how much is kept of an answer that is none, in bytes.
const maxText = 2048

// refusal is the error of an answer that is none. Its words come from the code
// alone, since clients get to see them; what the server said is for the log.
type refusal struct {
	*apierrors.StatusError
	said string
}

// Unwrap returns the error of the code.
func (r *refusal) Unwrap() error { return r.StatusError }

func refused(resp *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxText)) // as far as it comes
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &refusal{apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", "unknown", retryAfter, true), string(said)}
}

// Said is what a server said that refused to answer, cut to some length: for a
// log, not for clients.
func Said(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.said
	}
	return ""
}
