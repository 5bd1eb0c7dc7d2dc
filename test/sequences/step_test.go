package sequences

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// step is a request of a sequence. In each of its texts $R stands for the name of the run.
type step struct {
	Method string `json:"method"`
	Path   string `json:"path"`             // with its query
	Sent   string `json:"sent,omitempty"`   // the type of the body
	Accept string `json:"accept,omitempty"` // the types of the answer
	Body   string `json:"body,omitempty"`
	// Typed is a body of CBOR that is encoded from the Go type: what is bytes there is bytes in it.
	Typed bool `json:"typed,omitempty"`
	// From is the path of the object that is read just before, and whose change by Edits is the body.
	From  string       `json:"from,omitempty"`
	Edits []goldens.Op `json:"edits,omitempty"`
	// Watch is a watch: its events are compared when the sequence has ended.
	Watch bool `json:"watch,omitempty"`
	// Headers are further ones: who asks.
	Headers map[string][]string `json:"headers,omitempty"`
	// Until is asked again and again, for a few seconds, once the step has been done, until it is answered with Code: what a write means for
	// other requests holds a moment later.
	Until *step `json:"until,omitempty"`
	Code  int   `json:"code,omitempty"`
}

func (s step) String() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// resource is what a step is about, as messages name it: the plural and the subresource.
func (s step) resource() string {
	path, _, _ := strings.Cut(s.Path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 3 // apis, group, version
	if parts[0] == "api" {
		skip = 2
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "finalize" && parts[2] != "status" {
		parts = parts[2:]
	}
	if len(parts) == 0 {
		return path
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// decode reads a number of the JSON that people write.
func decode(data []byte) (any, error) {
	var v any
	err := json.Unmarshal(data, &v)
	return v, err
}

func clone[T any](v T) T {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%v: %v", v, err))
	}
	var out T
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}
