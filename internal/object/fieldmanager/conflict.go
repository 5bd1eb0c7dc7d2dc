package fieldmanager

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// conflicts refuses to change fields that others manage. Causes are in the order of the managers; the library's are in
// any order.
func (a *application) conflicts(changed set) error {
	type conflict struct {
		id     string
		name   string
		fields set
	}
	var found []conflict
	for i := range a.managers {
		o := &a.managers[i]
		if o.identity == a.self {
			continue
		}
		if fields := o.fields.intersection(changed); len(fields) > 0 {
			found = append(found, conflict{o.identity.json(), o.identity.text(), fields})
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b conflict) int { return cmp.Compare(a.id, b.id) })
	var causes []metav1.StatusCause
	var lines []string
	for _, c := range found {
		lines = append(lines, fmt.Sprintf("conflicts with %s:", c.name))
		c.fields.library().Iterate(func(p fieldpath.Path) {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + c.name, Field: p.String()})
			lines = append(lines, "- "+p.String())
		})
	}
	message := fmt.Sprintf("Apply failed with %d conflicts: %s", len(causes), strings.Join(lines, "\n"))
	if len(causes) == 1 {
		message = fmt.Sprintf("Apply failed with 1 conflict: %s: %s", causes[0].Message, causes[0].Field)
	}
	return apierrors.NewApplyConflict(causes, message)
}

// text is what a conflict calls a manager.
func (id identity) text() string {
	s := fmt.Sprintf("%q", id.manager)
	if id.subresource != "" {
		s += fmt.Sprintf(" with subresource %q", id.subresource)
	}
	if !id.applied {
		s += " using " + id.version
	}
	return s
}
