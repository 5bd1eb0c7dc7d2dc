package side

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The relay sends each change to all who watch, in the event that it was given.
func TestRelay(t *testing.T) {
	s := httptest.NewServer(&relay{event: []byte(`{"object":{"f:mark":{},"mark":"17","more":1}}` + "\n"), watchers: map[chan []byte]<-chan struct{}{}})
	defer s.Close()
	var streams []*bufio.Reader
	for range 3 {
		res, err := http.Get(s.URL + "/api/v1/pods?watch=1")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		streams = append(streams, bufio.NewReader(res.Body))
	}
	patch := func(body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.URL+"/api/v1/pods/a", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if code := patch(`{"metadata":{"annotations":{"mark":"4"}}}`); code != http.StatusOK {
		t.Errorf("code %d", code)
	}
	for n, stream := range streams {
		if line, err := stream.ReadString('\n'); err != nil || line != `{"object":{"f:mark":{},"mark":"4","more":1}}`+"\n" {
			t.Errorf("watcher %d: %q, %v", n, line, err)
		}
	}
	if code := patch(`{"metadata":{"annotations":{"other":"4"}}}`); code != http.StatusBadRequest {
		t.Errorf("an annotation that the event does not have: code %d", code)
	}
}
