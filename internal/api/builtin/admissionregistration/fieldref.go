package admissionregistration

import (
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// fieldRef validates the JSONPath of the expression in a type-checking warning.
func fieldRef(text string, e rules.Errors) {
	text = strings.TrimSpace(text)
	if !e.Present("fieldRef", text) {
		return
	}
	if err := jsonpath.New("spec").Parse("{" + text + "}"); err != nil {
		e.Field("fieldRef").Invalid(text, "must be a JSONPath: "+err.Error())
	}
}
