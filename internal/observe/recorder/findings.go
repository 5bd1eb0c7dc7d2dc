package recorder

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// findings are what is wrong now. Package findings looks for them; here they are served.
func (r *Recorder) findings(d Deps) *engine.Resource {
	res := readOnly("findings", "finding", "Finding", engine.VersionOf[v1alpha1.Finding, v1alpha1.FindingList](v1alpha1.GroupVersion(), nil))
	listed(r, res, func(ctx context.Context) []*v1alpha1.Finding {
		return d.Findings(ctx, func(o v1alpha1.ObjectReference) bool { return d.MayGet(ctx, o) == nil })
	}, func(f *v1alpha1.Finding) string { return version(f.Severity, f.Summary, f.Impact, f.Cause, f.Evidence) })
	res.Fields = engine.Fields(func(f *v1alpha1.Finding) fields.Set { return fields.Set{"check": f.Check, "severity": f.Severity} })
	res.Table = &engine.Table{
		Columns: []metav1.TableColumnDefinition{nameColumn(), column("Severity", "string", "Error, Warning or Info.", 0),
			column("Since", "string", "For how long it has been so.", 0), column("Summary", "string", "What is wrong.", 0),
			column("Impact", "string", "Who suffers from it, and how much.", 1), column("Cause", "string", "Why it is so.", 1)},
		Row: engine.Row(func(f *v1alpha1.Finding) []any {
			return []any{f.Name, f.Severity, duration.HumanDuration(r.Clock.Since(f.Since.Time)), f.Summary, f.Impact, f.Cause}
		}),
	}
	return res
}
