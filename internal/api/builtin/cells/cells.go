// Package cells contains columns and cell texts that the tables of several kinds share: names, ages, container lists,
// "a,b,c + 2 more...". A kind's own columns are next to its rules, in columns.go of its group's folder.
//
// Cell values are only strings, int64s and bools, so that a table is the same in every encoding.
package cells

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Texts for missing values.
const (
	None    = "<none>"
	Unset   = "<unset>"
	Unknown = "<unknown>"
)

// Since returns the time since t in short form: "5m", "3d4h".
func Since(t metav1.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// SinceMicro is Since for a MicroTime.
func SinceMicro(t metav1.MicroTime) string { return Since(metav1.Time(t)) }

// Or returns s, or fallback if s is empty.
func Or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Deref returns *p, or fallback if p is nil.
func Deref[T ~string](p *T, fallback string) string {
	if p == nil {
		return fallback
	}
	return string(*p)
}

// True reports whether p points to true.
func True(p *bool) bool { return p != nil && *p }

// First joins the first n texts and appends the number of the others.
func First(n int, texts []string, sep string) string {
	if len(texts) <= n {
		return strings.Join(texts, sep)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(texts[:n], sep), len(texts)-n)
}

// Containers returns the names and the images of a pod's containers.
func Containers(containers []corev1.Container) (names, images string) {
	n, i := make([]string, len(containers)), make([]string, len(containers))
	for k := range containers {
		n[k], i[k] = containers[k].Name, containers[k].Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
