package engine

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errNoPrefix says that a body is not protobuf as Kubernetes sends it.
var errNoPrefix = errors.New("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")

// typeError returns why the type of a body that could not be decoded is not known either, in the words of
// kube-apiserver; nil: it is known.
func typeError(data []byte, m media, err error) error {
	if m == mediaProtobuf {
		if errors.Is(err, errNoPrefix) {
			return err
		}
		return nil
	}
	// The words have the type of this variable in them.
	var t struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if m == mediaYAML && !json.Valid(data) {
		return err // of the YAML
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return nil
}

// errUnrecognized refuses a body whose type is not known. It tells how the body begins.
func errUnrecognized(kind string, err error, body []byte) error {
	const shown = 30
	begin, more := body[:min(len(body), shown)], ""
	if len(body) > shown {
		more = " ..."
	}
	text := hex.EncodeToString(begin)
	switch {
	case len(body) == 0:
		text = "<empty>"
	case body[0] == '{':
		text = string(begin)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s%s)", kind, err, text, more))
}
