package goldens

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Client talks to one API server.
type Client struct {
	URL  string
	HTTP *http.Client
}

func (c *Client) do(method, path, contentType, accept string, body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", "goldens/1")
	if len(body) > 0 && contentType == "" {
		contentType = "application/json"
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if accept == "" {
		accept = "application/json"
	}
	req.Header.Set("Accept", accept)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if len(b) > 0 {
		err = nil // a cut watch or an early close after a full answer
	}
	return resp, b, err
}

// getJSON decodes a GET answer; the code is 0 when there is none.
func (c *Client) getJSON(path, accept string) (int, map[string]any) {
	resp, b, err := c.do("GET", path, "", accept, nil)
	if err != nil {
		return 0, nil
	}
	var m map[string]any
	_ = json.Unmarshal(b, &m)
	return resp.StatusCode, m
}

func (c *Client) send(method, path string, obj any) (int, error) {
	b, _ := json.Marshal(obj)
	resp, rb, err := c.do(method, path, "", "", b)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, fmt.Errorf("%s %s: %d %.300s", method, path, resp.StatusCode, rb)
	}
	return resp.StatusCode, nil
}
