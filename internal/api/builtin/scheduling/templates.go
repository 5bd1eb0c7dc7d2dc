package scheduling

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

type (
	workloadSpec  = schedulingv1alpha3.WorkloadSpec
	groupTemplate = schedulingv1alpha3.PodGroupTemplate
	treeTemplate  = schedulingv1alpha3.CompositePodGroupTemplate
)

// templates validates what the templates of a workload must have in common; each is the root of a tree of templates.
func templates(s *workloadSpec, e rules.Errors) {
	trees := e.Field("compositePodGroupTemplates")
	uniqueNames(s, e)
	for i := range s.CompositePodGroupTemplates {
		if t := &s.CompositePodGroupTemplates[i]; deeper(t, schedulingv1alpha3.WorkloadMaxTreeDepth-1) {
			trees.Item(i).Invalid(t.CompositePodGroupTemplates,
				fmt.Sprintf("maximum template hierarchy depth is %d", schedulingv1alpha3.WorkloadMaxTreeDepth))
		}
	}
	onePriority(s, e)
	for i := range s.CompositePodGroupTemplates {
		hasChildren(&s.CompositePodGroupTemplates[i], trees.Item(i))
	}
}

// uniqueNames refuses a name that another list of templates has: declared validation finds those that are twice in one list.
func uniqueNames(s *workloadSpec, e rules.Errors) {
	taken := map[string]bool{}
	for i := range s.PodGroupTemplates {
		taken[s.PodGroupTemplates[i].Name] = true
	}
	namesOfTrees(s.CompositePodGroupTemplates, taken, e.Field("compositePodGroupTemplates"))
}

func namesOfTrees(trees []treeTemplate, taken map[string]bool, e rules.Errors) {
	newNames(len(trees), func(i int) string { return trees[i].Name }, taken, e)
	for i := range trees {
		t, at := &trees[i], e.Item(i)
		newNames(len(t.PodGroupTemplates), func(j int) string { return t.PodGroupTemplates[j].Name }, taken, at.Field("podGroupTemplates"))
		namesOfTrees(t.CompositePodGroupTemplates, taken, at.Field("compositePodGroupTemplates"))
	}
}

// newNames refuses the names of a list that are taken, and takes them all.
func newNames(n int, name func(i int) string, taken map[string]bool, e rules.Errors) {
	for i := range n {
		if taken[name(i)] {
			e.Item(i).Field("name").Duplicate(name(i))
		}
	}
	for i := range n {
		taken[name(i)] = true
	}
}

// deeper reports whether a tree has more than so many levels below its root.
func deeper(t *treeTemplate, levels int) bool {
	if levels == 0 {
		return true
	}
	for i := range t.CompositePodGroupTemplates {
		if deeper(&t.CompositePodGroupTemplates[i], levels-1) {
			return true
		}
	}
	return false
}

// priority is the priority that a template asks for.
type priority struct {
	class string
	set   bool
	value int32
}

func priorityOf(class string, value *int32) priority {
	return priority{class, value != nil, ptr.Deref(value, 0)}
}

// onePriority requires that all templates ask for the same priority.
func onePriority(s *workloadSpec, e rules.Errors) {
	seen := map[priority]bool{}
	groupPriorities(s.PodGroupTemplates, seen)
	if len(seen) > 1 {
		e.Invalid(nil, "detected multiple priority configurations")
		return
	}
	treePriorities(s.CompositePodGroupTemplates, seen)
	if len(seen) > 1 {
		e.Invalid(nil, "all priority and priorityClassName values must be identical, detected multiple values")
	}
}

func groupPriorities(groups []groupTemplate, seen map[priority]bool) {
	for i := range groups {
		seen[priorityOf(groups[i].PriorityClassName, groups[i].Priority)] = true
	}
}

func treePriorities(trees []treeTemplate, seen map[priority]bool) {
	for i := range trees {
		t := &trees[i]
		seen[priorityOf(t.PriorityClassName, t.Priority)] = true
		treePriorities(t.CompositePodGroupTemplates, seen)
		groupPriorities(t.PodGroupTemplates, seen)
	}
}

func hasChildren(t *treeTemplate, e rules.Errors) {
	if len(t.PodGroupTemplates) == 0 && len(t.CompositePodGroupTemplates) == 0 {
		e.Invalid(t.Name, "must have at least one child PodGroupTemplate or CompositePodGroupTemplate")
	}
	for i := range t.CompositePodGroupTemplates {
		hasChildren(&t.CompositePodGroupTemplates[i], e.Field("compositePodGroupTemplates").Item(i))
	}
}
