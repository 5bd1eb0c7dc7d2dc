package merge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	v1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
)

// This file tells why nothing is written.

// maxConflicts is how many conflicts a merge tells of. One object can have a hundred thousand, and each is told in a sentence.
const maxConflicts = 10_000

// conflict takes note of a conflict.
func (m *merging) conflict(o *object, c conflict, ours, theirs []string) {
	m.conflicts = append(m.conflicts, v1.Conflict{
		APIVersion: o.apiVersion(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Field: strings.TrimPrefix(c.path.String(), "."),
		Fork: shown(o, &c, c.ours), Server: shown(o, &c, c.theirs), ForkManagers: ours, ServerManagers: theirs,
	})
}

// maxShown bounds a value that is shown, in bytes.
const maxShown = 80

// shown is a value, or what there is of an object that the other side has deleted. Values of secrets are not shown.
func shown(o *object, c *conflict, v any) string {
	switch {
	case v == absent:
		return ""
	case len(c.path) == 0:
		return "changed it"
	case o.Group == "" && o.Kind == "Secret":
		return "(hidden)"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "…"
	}
	return string(text)
}

// refusal is why nothing is written; nil: there is no reason.
func (m *merging) refusal(force bool) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Causes: m.refused}}
	switch {
	case len(m.refused) > 0:
		status.Code, status.Reason = http.StatusForbidden, metav1.StatusReasonForbidden
		status.Message = "nothing was written: " + andMore(m.refused[0].Message, len(m.refused))
	case len(m.conflicts) > 0 && !force:
		for n := range m.conflicts {
			status.Details.Causes = append(status.Details.Causes, causeOf(&m.conflicts[n]))
		}
		status.Message = "nothing was written: the fork and the server have both changed " + andMore(status.Details.Causes[0].Message, len(m.conflicts))
	case len(m.writes) > most:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%d objects were changed in the fork, and at most %d are written at once", len(m.writes), most))
	default:
		return nil
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func andMore(first string, all int) string {
	if all == 1 {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, all-1)
}

// causeOf is a conflict as one of the causes of a refusal.
func causeOf(c *v1.Conflict) metav1.StatusCause {
	what := called(&bundle.Change{Kind: c.Kind, Version: c.APIVersion, Other: bundlev1.Other{Namespace: c.Namespace, Name: c.Name}})
	if c.Name == "" {
		what = "a " + c.Kind + " that you may not see"
	}
	side := func(value string, managers []string) string {
		if value == "" {
			value = "none"
			if c.Field == "" {
				value = "deleted it"
			}
		}
		if len(managers) > 0 {
			value += " (" + strings.Join(managers, ", ") + ")"
		}
		return value
	}
	kind := metav1.CauseType(metav1.CauseTypeFieldManagerConflict)
	if c.Field == "" {
		return metav1.StatusCause{Type: kind, Message: fmt.Sprintf("%s: the fork has %s, the server has %s", what, side(c.Fork, c.ForkManagers), side(c.Server, c.ServerManagers))}
	}
	return metav1.StatusCause{Type: kind, Field: c.Field, Message: fmt.Sprintf("%s: %s: the fork has %s, the server has %s", what, c.Field, side(c.Fork, c.ForkManagers), side(c.Server, c.ServerManagers))}
}
