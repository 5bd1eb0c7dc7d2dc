package core

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// proxySubresource returns the subresource that proxies HTTP requests to a node, pod or service. options returns the
// options for a path.
func proxySubresource(optionsKind string, options func(path string) runtime.Object) *engine.Subresource {
	return &engine.Subresource{
		Name: "proxy", Verbs: []string{"create", "delete", "get", "patch", "update"},
		Kind:    v1.WithKind(optionsKind),
		Connect: "proxy",
		Options: func(_ url.Values, path string) (runtime.Object, error) { return options(path), nil },
	}
}

// streamSubresource returns a subresource that streams to a container of a pod.
func (d Deps) streamSubresource(name, optionsKind string, options func(q url.Values) (runtime.Object, error)) *engine.Subresource {
	return &engine.Subresource{
		Name: name, Verbs: []string{"create", "get"},
		Kind:    v1.WithKind(optionsKind),
		Connect: name, MustCreate: !d.Pods.Gates.Off(features.AuthorizePodWebsocketUpgradeCreatePermission),
		Options: func(q url.Values, _ string) (runtime.Object, error) { return options(q) },
	}
}

func execOptions(q url.Values) (runtime.Object, error) {
	return &corev1.PodExecOptions{
		Stdin: isSet(q, "stdin"), Stdout: isSet(q, "stdout"), Stderr: isSet(q, "stderr"), TTY: isSet(q, "tty"),
		Container: q.Get("container"), Command: q["command"],
	}, nil
}

func attachOptions(q url.Values) (runtime.Object, error) {
	return &corev1.PodAttachOptions{
		Stdin: isSet(q, "stdin"), Stdout: isSet(q, "stdout"), Stderr: isSet(q, "stderr"), TTY: isSet(q, "tty"),
		Container: q.Get("container"),
	}, nil
}

func portForwardOptions(q url.Values) (runtime.Object, error) {
	o := &corev1.PodPortForwardOptions{}
	for _, list := range q["ports"] {
		for s := range strings.SplitSeq(list, ",") {
			port, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				return nil, err
			}
			o.Ports = append(o.Ports, int32(port))
		}
	}
	return o, nil
}

// isSet parses a boolean as API conversion does: any value except "false" and "0" is true.
func isSet(q url.Values, name string) bool {
	v := q[name]
	return len(v) > 0 && v[0] != "0" && !strings.EqualFold(v[0], "false")
}

// LogOptions parses the query of a request for a container's log.
func LogOptions(q url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{
		Container: q.Get("container"), Follow: isSet(q, "follow"), Previous: isSet(q, "previous"), Timestamps: isSet(q, "timestamps"),
		InsecureSkipTLSVerifyBackend: isSet(q, "insecureSkipTLSVerifyBackend"),
	}
	for name, into := range map[string]**int64{"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes} {
		if len(q[name]) == 0 {
			continue
		}
		n, err := strconv.ParseInt(q[name][0], 10, 64)
		if err != nil {
			return nil, err
		}
		*into = &n
	}
	if t := q["sinceTime"]; len(t) > 0 {
		o.SinceTime = &metav1.Time{}
		if err := o.SinceTime.UnmarshalQueryParameter(t[0]); err != nil {
			return nil, err
		}
	}
	if s := q["stream"]; len(s) > 0 {
		o.Stream = &s[0]
	}
	return o, nil
}

// ValidateLogOptions validates the query of a request for a container's log. Its errors are those of an invalid
// PodLogOptions. With splitStreams a client may ask for one of the streams.
func ValidateLogOptions(o *corev1.PodLogOptions, splitStreams bool) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	switch {
	case o.Stream == nil:
	case splitStreams:
		errs = append(errs, logStream(o)...)
	default:
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}

func logStream(o *corev1.PodLogOptions) (errs field.ErrorList) {
	streams := []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}
	if !slices.Contains(streams, *o.Stream) {
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream, streams))
	}
	if *o.Stream != corev1.LogStreamAll && o.TailLines != nil {
		errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return errs
}
