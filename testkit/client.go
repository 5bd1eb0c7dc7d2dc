package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// client makes requests of a server.
type client struct {
	http.Client
	url string
}

// refusal is an answer that is no success.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

// isCode says whether an error is an answer with a status code.
func isCode(err error, code int) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}

// do sends a body, as JSON, if it is not nil, and reads the answer into out if that is not nil.
func (c *client) do(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "testkit")
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, text)
		}
		return &refusal{answer.StatusCode, status.Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func (c *client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// poll asks until f says yes, fails, or ctx ends; then it says what was waited for.
func poll(ctx context.Context, what string, f func() (bool, error)) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
