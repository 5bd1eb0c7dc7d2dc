package findings

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/store"
)

func definitionOf(name string) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Name: name}
}

// definition returns a definition; nil if it is gone.
func (l *look) definition(name string) *apiextensionsv1.CustomResourceDefinition {
	o := definitionOf(name)
	ep, i, _ := l.item(o)
	if i == nil {
		return nil
	}
	obj, err := ep.Decode(l.ctx, i)
	if err != nil {
		return nil
	}
	c, _ := obj.(*apiextensionsv1.CustomResourceDefinition)
	return c
}

// definitions looks at CustomResourceDefinitions that are not served or do not go away.
func (l *look) definitions() {
	troubled := func(i *store.Item) bool {
		v := i.Value()
		return bytes.Contains(v, []byte(`"status":"False"`)) || bytes.Contains(v, []byte(`"deletionTimestamp"`)) || bytes.Contains(v, []byte(`"NonStructuralSchema"`))
	}
	for _, obj := range l.scan(schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}, troubled) {
		c, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		if c.DeletionTimestamp != nil && l.time.Sub(c.DeletionTimestamp.Time) >= patienceWithLiving {
			f := l.about("DefinitionStuck", v1alpha1.SeverityWarning, definitionOf(c.Name), "definition %s is not deleted", c.Name)
			f.Since.Time = c.DeletionTimestamp.Time
			f.Impact, f.Cause = "it cannot be made anew", "its objects are not gone: they must lose their finalizers"
			f.run("kubectl get %s -A", c.Name)
			f.run("kanzen why crd/%s", c.Name)
		}
		for _, x := range c.Status.Conditions {
			refused := x.Status == apiextensionsv1.ConditionFalse && (x.Type == apiextensionsv1.NamesAccepted || x.Type == apiextensionsv1.Established && x.Reason != "Installing") ||
				x.Status == apiextensionsv1.ConditionTrue && x.Type == apiextensionsv1.NonStructuralSchema
			if !refused || l.time.Sub(x.LastTransitionTime.Time) < patience {
				continue
			}
			f := l.about("DefinitionRefused", v1alpha1.SeverityError, definitionOf(c.Name), "definition %s is not accepted: %s is %s", c.Name, x.Type, x.Status)
			f.Since = x.LastTransitionTime
			f.Impact, f.Cause = "its objects cannot be read or written as it says", x.Message
			f.run("kubectl describe crd %s", c.Name)
		}
	}
}

// From these bytes on a definition and the objects of it are worth a word: etcd takes no value beyond 1.5 MiB, and objects are in memory.
const (
	largeDefinition = 1 << 20
	costlyObjects   = 64 << 20
	costlyCheck     = 10 * time.Millisecond
	enoughChecks    = 20 // the first compile expressions
)

// costly tells of definitions that are nearly too large to be stored, whose objects are most of what is in memory, or whose objects take long to check.
func (l *look) costly() {
	var all int64
	for _, v := range l.Parts.Views() {
		all += v.Bytes
	}
	for _, d := range l.sized.definitions {
		isLarge, isMost := d.DefinitionBytes >= largeDefinition, d.Bytes >= costlyObjects && d.Bytes > all/2
		isSlow := d.Checks >= enoughChecks && d.MeanCheck() >= costlyCheck
		if !isLarge && !isMost && !isSlow {
			continue
		}
		f := l.about("DefinitionCostly", v1alpha1.SeverityInfo, definitionOf(d.Name), "definition %s costs much", d.Name)
		f.saw("the definition has %s, %s are in memory with %s, %s", kibibytes(d.DefinitionBytes), plural(d.Objects, "object"), kibibytes(d.Bytes), plural(d.Watchers, "watcher"))
		if isMost {
			f.Impact = fmt.Sprintf("%s of memory, %d%% of what all objects take", kibibytes(d.Bytes), 100*d.Bytes/all)
			f.Cause = "its objects are many or large, and something lists or watches all of them"
			f.run("kubectl get watches --field-selector group=%s,resource=%s", d.Group, d.Resource)
		}
		if isLarge {
			f.Impact = "it is read as a whole by everything that lists definitions, and cannot grow beyond 1.5 MiB"
			f.Cause = "its schemas and descriptions are large, in " + plural(len(d.Versions), "version")
			f.run("kubectl get crd %s -o json | wc -c  # controller-gen crd:maxDescLen=0 leaves the descriptions out", d.Name)
		}
		if isSlow {
			f.saw("%s were checked in %s, since the definition last changed", plural(d.Checks, "object"), short(d.CheckTime.Duration))
			f.Impact = fmt.Sprintf("each write of one waits %s for the check, and takes a processor for it", short(d.MeanCheck()))
			f.Cause = "its objects are large, or its rules (x-kubernetes-validations) go through long lists and maps"
			f.run("kubectl get crd %s -o json | jq -r '.. | .\"x-kubernetes-validations\"? // empty | .[].rule'", d.Name)
		}
		f.run("kubectl get definition.flightrecorder.kanzen.io %s -o yaml", d.Name)
	}
}

func kibibytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// apiServices looks at extension API servers that are away.
func (l *look) apiServices() {
	troubled := func(i *store.Item) bool { return bytes.Contains(i.Value(), []byte("False")) }
	for _, obj := range l.scan(schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}, troubled) {
		a, ok := obj.(*apiregistrationv1.APIService)
		if !ok {
			continue
		}
		for _, c := range a.Status.Conditions {
			if c.Type != apiregistrationv1.Available || c.Status != apiregistrationv1.ConditionFalse || l.time.Sub(c.LastTransitionTime.Time) < patience {
				continue
			}
			o := v1alpha1.ObjectReference{Group: apiregistrationv1.GroupName, Resource: "apiservices", Name: a.Name}
			f := l.about("APIServiceAway", v1alpha1.SeverityError, o, "extension API %s is not available", a.Name)
			f.Since = c.LastTransitionTime
			f.Impact = fmt.Sprintf("requests for %s are answered with 503; the deletion of namespaces and garbage collection wait for it", a.Spec.Group)
			f.Cause = c.Message
			f.saw("reason %s", c.Reason)
			f.run("kubectl describe apiservice %s", a.Name)
			if s := a.Spec.Service; s != nil {
				f.run("kubectl get service,endpointslices -n %s -l kubernetes.io/service-name=%s", s.Namespace, s.Name)
			}
		}
	}
}

// nearly is the part of a quota that counts as nearly used up.
const nearly = 0.9

// quotas looks at quotas that are nearly used up.
func (l *look) quotas() {
	for _, obj := range l.scan(schema.GroupResource{Resource: "resourcequotas"}, allItems) {
		q, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			continue
		}
		var full []string
		for name, hard := range q.Status.Hard {
			used := q.Status.Used[name]
			if hard.AsApproximateFloat64() > 0 && used.AsApproximateFloat64() >= nearly*hard.AsApproximateFloat64() {
				full = append(full, fmt.Sprintf("%s of %s %s", used.String(), hard.String(), name))
			}
		}
		if len(full) == 0 {
			continue
		}
		slices.Sort(full)
		o := v1alpha1.ObjectReference{Resource: "resourcequotas", Namespace: q.Namespace, Name: q.Name}
		f := l.about("QuotaNearlyUsed", v1alpha1.SeverityInfo, o, "quota %s/%s is nearly used up", q.Namespace, q.Name)
		f.Impact, f.Cause = "what goes beyond it is refused", listed(full)+" are in use"
		f.run("kubectl describe resourcequota -n %s %s", q.Namespace, q.Name)
	}
}
