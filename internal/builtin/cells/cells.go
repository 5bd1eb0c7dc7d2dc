// Package cells holds the columns and cell texts that the tables of several
// kinds share: names, ages, container lists, "a,b,c + 2 more...". A kind's own
// columns stand next to its rules, in columns.go of its group's folder.
//
// Cell values are strings, int64s and bools only, so that a table reads the same
// in every encoding.
package cells

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// What is shown where there is nothing to show.
const (
	None    = "<none>"
	Unset   = "<unset>"
	Unknown = "<unknown>"
)

// Since is the time that has passed since t, as people say it: "5m", "3d4h".
func Since(t metav1.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// SinceMicro is Since for a MicroTime.
func SinceMicro(t metav1.MicroTime) string { return Since(metav1.Time(t)) }

// Or is s, or fallback where s is empty.
func Or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Deref is the text p points to, or fallback.
func Deref[T ~string](p *T, fallback string) string {
	if p == nil {
		return fallback
	}
	return string(*p)
}

// True says whether p points to true.
func True(p *bool) bool { return p != nil && *p }

// First joins the first n texts and says how many there are beyond them.
func First(n int, texts []string, sep string) string {
	if len(texts) <= n {
		return strings.Join(texts, sep)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(texts[:n], sep), len(texts)-n)
}

// Containers are the names and the images of a pod's containers.
func Containers(containers []corev1.Container) (names, images string) {
	n, i := make([]string, len(containers)), make([]string, len(containers))
	for k := range containers {
		n[k], i[k] = containers[k].Name, containers[k].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
